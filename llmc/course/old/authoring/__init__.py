"""For those who write the course: are the checks right about right and wrong answers?"""
