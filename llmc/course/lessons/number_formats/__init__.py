"""Lesson 18: number formats bit by bit, how rounding errors grow, loss scaling, stochastic rounding, fp8."""
