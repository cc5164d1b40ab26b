"""The part of Spark's expressions that the fast reader knows, parsed; its precedence is that of Spark's grammar."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from blizzard.config import ddl
from blizzard.config.expressions.syntax import NotUnderstood
from blizzard.config.expressions.tokens import END, Token, tokens

MAX_DEPTH = 50
COMPARISONS = {"=": "=", "==": "=", "<=>": "<=>", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_RESERVED = frozenset(
    {"and", "between", "case", "else", "end", "from", "in", "is", "like", "not", "or", "then", "when"}
)
"""Words that are no columns here."""


@dataclass(frozen=True, slots=True)
class Value:
    """A constant. `kind`: `string`, `integer`, `decimal`, `double`, `boolean`, `null` or `date`."""

    kind: str
    value: bool | str | int | float | Decimal | None


@dataclass(frozen=True, slots=True)
class Name:
    """Of a column, and of fields in it."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """`type`: the one that `cast` names."""

    name: str
    arguments: tuple["Node", ...]
    type: ddl.Type | None = None


Node = Value | Name | Function


def parse(text: str) -> Node:
    """Raises NotUnderstood."""
    return _Parser([*tokens(text)]).whole()


class _Parser:
    def __init__(self, found: Sequence[Token]) -> None:
        self._tokens = found
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._or()
        if self._next is not END:
            raise self._unknown()
        return node

    # -- tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += token is not END
        return token

    def _accept(self, *keywords: str) -> bool:
        upcoming = self._tokens[self._at : self._at + len(keywords)]
        if tuple(token.keyword for token in upcoming) != keywords:
            return False
        self._at += len(keywords)
        return True

    def _expect(self, keyword: str) -> None:
        if not self._accept(keyword):
            raise self._unknown()

    def _unknown(self) -> NotUnderstood:
        return NotUnderstood("the end too early" if self._next is END else f"{self._next.text[:40]!r} there")

    # -- from the loosest to the tightest

    def _or(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NotUnderstood(f"more than {MAX_DEPTH} levels")
        node = self._and()
        while self._accept("or"):
            node = Function("or", (node, self._and()))
        self._depth -= 1
        return node

    def _and(self) -> Node:
        node = self._not()
        while self._accept("and"):
            node = Function("and", (node, self._not()))
        return node

    def _not(self) -> Node:
        negations = 0
        while self._accept("not"):
            negations += 1
        node = self._predicate()
        for _ in range(negations):
            node = Function("not", (node,))
        return node

    def _predicate(self) -> Node:
        node = self._concat()
        if (operator := COMPARISONS.get(self._next.keyword)) is not None:
            self._take()
            node = Function(operator, (node, self._concat()))
        elif self._accept("is"):
            return self._is(node)
        else:
            negated = self._accept("not")
            found = self._between_in_like(node)
            if found is None:
                if negated:
                    raise self._unknown()
                return node
            node = Function("not", (found,)) if negated else found
        if self._next.keyword in {*COMPARISONS, "is", "between", "in", "like", "not"}:
            raise self._unknown()  # Spark's grammar has an order for these
        return node

    def _is(self, node: Node) -> Node:
        negated = self._accept("not")
        if self._accept("null"):
            return Function("isnotnull" if negated else "isnull", (node,))
        raise self._unknown()

    def _between_in_like(self, node: Node) -> Node | None:
        if self._accept("between"):
            low = self._concat()
            self._expect("and")
            return Function("and", (Function(">=", (node, low)), Function("<=", (node, self._concat()))))
        if self._accept("in"):
            self._expect("(")
            return Function("in", (node, *self._arguments()))
        if self._accept("like"):
            pattern = self._concat()
            if self._next.keyword == "escape":
                raise self._unknown()
            return Function("like", (node, pattern))
        return None

    def _concat(self) -> Node:
        node = self._primary()
        while self._accept("||"):
            node = Function("concat", (node, self._primary()))
        if self._next.keyword in {"+", "-", "*", "/", "%", "!"}:
            raise NotUnderstood(f"the operator {self._next.text}")
        return node

    def _primary(self) -> Node:
        token = self._take()
        match token.kind:
            case "string":
                return self._string(token)
            case "integer":
                return Value("integer", int(token.text))
            case "decimal":
                return Value("decimal", Decimal(token.text))
            case "double":
                return Value("double", float(token.text))
            case "quoted":
                return self._name(token.text[1:-1].replace("``", "`"))
            case "word":
                return self._word(token)
        if token.keyword == "(":
            node = self._or()
            self._expect(")")
            return node
        if token.keyword in "+-" and self._next.kind in ("integer", "decimal", "double"):
            return _signed(self._primary(), token.keyword)
        self._at -= token is not END
        raise self._unknown()

    def _string(self, token: Token) -> Node:
        if "\\" in token.text or self._next.kind == "string":
            raise NotUnderstood("a text with escapes or in parts")
        return Value("string", token.text[1:-1])

    def _word(self, token: Token) -> Node:
        word = token.keyword
        if self._accept("("):
            if word == "cast":
                return self._cast()
            return Function(word, self._arguments())
        if self._next.kind == "string":
            if word != "date":
                raise NotUnderstood(f"{token.text} {self._next.text[:20]}")
            return Value("date", self._take().text[1:-1])
        if word in ("true", "false"):
            return Value("boolean", word == "true")
        if word == "null":
            return Value("null", None)
        if word in _RESERVED:
            self._at -= 1
            raise self._unknown()
        return self._name(token.text)

    def _name(self, first: str) -> Node:
        parts = [first]
        while self._accept("."):
            token = self._take()
            if token.kind not in ("word", "quoted"):
                raise NotUnderstood(f"{token.text[:40]!r} after a dot")
            parts.append(token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text)
        if self._next.keyword == "(":
            raise self._unknown()
        return Name(tuple(parts))

    def _arguments(self) -> tuple[Node, ...]:
        """Up to the closing parenthesis."""
        if self._accept(")"):
            return ()
        found = [self._or()]
        while self._accept(","):
            found.append(self._or())
        self._expect(")")
        return tuple(found)

    def _cast(self) -> Node:
        operand = self._or()
        self._expect("as")
        words: list[str] = []
        while self._next is not END and (self._next.keyword != ")" or words.count("(") > words.count(")")):
            words.append(self._take().text)
        self._expect(")")
        try:
            [column] = ddl.parse(f"c {' '.join(words)}").columns
        except (ddl.DdlError, ValueError):
            raise NotUnderstood(f"the type {' '.join(words)[:40]}") from None
        if not column.nullable or column.comment is not None:
            raise NotUnderstood(f"the type {' '.join(words)[:40]}")
        return Function("cast", (operand,), column.type)


def _signed(node: Node, sign: str) -> Node:
    assert isinstance(node, Value)
    assert isinstance(node.value, int | float | Decimal)
    return node if sign == "+" else Value(node.kind, -node.value)
