// Lists of operands for asm statements: SIXTEEN("+f", x, 0) is "+f"(x[0]), …, "+f"(x[15]).

#define FOUR(how, x, i) how(x[i]), how(x[i + 1]), how(x[i + 2]), how(x[i + 3])
#define EIGHT(how, x, i) FOUR(how, x, i), FOUR(how, x, i + 4)
#define SIXTEEN(how, x, i) EIGHT(how, x, i), EIGHT(how, x, i + 8)
