"""What may stand for an operation of two operands in a learner's kernel, `a * b + c`: another sign, other brackets."""

import re

OTHER_SIGN = {"+": ("-", "*"), "-": ("+",), "*": ("/", "+"), "/": ("*", "%"), "%": ("/",), "&&": ("||",), "||": ("&&",)}


def of_operator(each, k, token):
    for new in OTHER_SIGN.get(token.text, ()):
        yield 1.3, token.start, token.end, new, token.text
    if token.text in ("+", "-"):
        first, last = each.term(k - 1, False), each.term(k + 1, True)
    elif token.text in ("&&", "||"):
        if depth(each, 0, k) == 0:
            for part in (each.text[: token.start], each.text[token.end :]):
                yield 1, 0, len(each.text), part.strip(), each.text
        return
    elif token.text in ("*", "/", "%"):
        first, last = each.before(k - 1), each.after(k + 1)
    else:
        return
    start, end = each.all[first].start, each.all[last].end
    left, right, whole = each.piece(first, k - 1), each.piece(k + 1, last), each.text[start:end]
    if token.text == "-":
        yield 0, start, end, f"{right} - {left}", whole
    yield 1, start, end, left, whole
    if token.text in ("+", "*", "-"):
        yield 1, start, end, f"-{right}" if token.text == "-" else right, whole
    if token.text == "+":
        yield from _exchanged(each, first, k, last)
    if token.text in ("+", "-"):
        yield from _bracketed(each, first, k, last)
        yield from _shifted_first(each, first, k, last)
    if token.text in ("*", "/", "%"):
        yield from _bracketed_factor(each, first, k, last)
        for bracket in (left, right):
            if re.fullmatch(r"\([^()]*[-+][^()]*\)", bracket):
                yield 1, start, end, whole.replace(bracket, bracket[1:-1], 1), whole
    if token.text == "*":
        yield from _into_the_call(each, first, k, last)
    if token.text == "/" and (power := _quotient_of_exp(left, right)):
        yield 1, start, end, power, whole


def _bracketed(each, first, k, last):
    """`a + b * c` as `(a + b) * c`, `a * b + c` as `a * (b + c)`, and `a + 4 * b` as `4 * (a + b)`."""
    start, end, whole = each.all[first].start, each.all[last].end, each.piece(first, last)
    operand, other = each.after(k + 1), each.before(k - 1)
    if operand < last:
        yield 1, start, end, f"({each.piece(first, operand)}){each.text[each.all[operand].end : end]}", whole
    if other > first:
        yield 1, start, end, f"{each.text[start : each.all[other].start]}({each.piece(other, last)})", whole
    factor = each.all[k + 1]
    if factor.kind == "number" and last > k + 2 and each.all[k + 2].text == "*":
        inside = f"{each.piece(first, k)} {each.piece(k + 3, last)}"
        yield 1, start, end, f"{factor.text} * ({inside})", whole


def _shifted_first(each, first, k, last):
    """`a << 16 + b` as `(a << 16) + b`: a sum binds more strongly than a shift."""
    shift = each.all[first - 1].text if first > 1 else ""
    if shift in ("<<", ">>"):
        head = each.before(first - 2)
        start, end = each.all[head].start, each.all[last].end
        new = f"({each.piece(head, k - 1)}) {each.all[k].text} {each.piece(k + 1, last)}"
        yield 0, start, end, new, each.text[start:end]


def _bracketed_factor(each, first, k, last):
    """`a % b * c` as `a % (b * c)`, and `a / b * c` as `a / (b * c)`."""
    before = each.all[first - 1].text if first else ""
    if before in ("%", "/") and each.is_binary(first - 1):
        start, end, whole = each.all[first].start, each.all[last].end, each.piece(first, last)
        yield 0.5, start, end, f"({whole})", whole


def _exchanged(each, first, k, last):
    """`a * n + b` as `b * n + a`, and as `b * (other) + a` where the factor is the second."""
    star = next((j for j in range(first, k) if each.all[j].text == "*" and each.is_binary(j)), None)
    if star is None or each.all[last].text == ")" and last - k > 12:
        return
    row, stride, column = each.piece(first, star - 1), each.piece(star + 1, k - 1), each.piece(k + 1, last)
    yield 1, each.all[first].start, each.all[last].end, f"({column}) * {stride} + {row}", each.piece(first, last)


def _into_the_call(each, first, k, last):
    """`f(x) * g` as `f(x * g)`, and the other way round."""
    if each.all[k - 1].text == ")" and each.all[first].kind == "name":
        inside, factor = each.piece(first, k - 2), each.piece(k + 1, last)
        opening = each.opening(k - 1)
        name, argument = each.piece(first, opening), each.piece(opening + 1, k - 2) if opening + 1 < k - 1 else ""
        if argument and inside:
            whole = each.piece(first, last)
            yield 1, each.all[first].start, each.all[last].end, f"{name}({argument}) * {factor})", whole


def _quotient_of_exp(left, right):
    """`expf(a) / b` as `expf(a - b)`: b may be a logarithm."""
    found = re.fullmatch(r"(_*expf)\((.+)\)", left)
    return f"{found[1]}({found[2]} - {right})" if found else ""


def depth(each, opening, at) -> int:
    marks = [token.text for token in each.all[opening:at]]
    return sum(mark in "([{" for mark in marks) - sum(mark in ")]}" for mark in marks)
