"""Types of the parsed expressions, by the rules of Spark in ANSI mode: only where the fast reader gets exactly the
value that Spark gets. Everything else is left to Spark."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal as DecimalValue

from blizzard.config.ddl import Atomic, Column, Decimal, Struct, Type
from blizzard.config.expressions.parse import COMPARISONS, Function, Name, Node, Value, parse
from blizzard.config.expressions.syntax import Call, Constant, Expression, Field, Literal, NotUnderstood, UnknownName

BOOLEAN, DATE, STRING, TIMESTAMP = Atomic("boolean"), Atomic("date"), Atomic("string"), Atomic("timestamp")
INT, BIGINT, DOUBLE, FLOAT, NTZ = (
    Atomic("int"),
    Atomic("bigint"),
    Atomic("double"),
    Atomic("float"),
    Atomic("timestamp_ntz"),
)
INTEGERS = (Atomic("tinyint"), Atomic("smallint"), INT, BIGINT)
"""From the narrowest to the widest."""
NULL = Atomic("void")
EXACT_IN_FLOATS = 1 << 24
MAX_DIGITS = 38

_CASTS: Mapping[Type, Sequence[Type]] = {
    **dict.fromkeys(INTEGERS, (*INTEGERS, DOUBLE, STRING)),
    STRING: (*INTEGERS, DATE),
    BOOLEAN: (STRING,),
    DATE: (STRING, TIMESTAMP),
    TIMESTAMP: (DATE, BIGINT, STRING),
    NTZ: (DATE,),
    DOUBLE: INTEGERS,
}
"""From each type to others that the fast reader converts it to."""
_SAME_NAMES = {
    "lcase": "lower",
    "ucase": "upper",
    "substr": "substring",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "dayofmonth": "day",
}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that an expression may name. `types`: by name. A name is looked up as Spark does it, whatever its
    case."""

    types: Mapping[str, Type]

    def field(self, parts: Sequence[str]) -> Field:
        row = Struct(tuple(Column(name, kind) for name, kind in self.types.items()))
        path = list[str]()
        kind: Type = row
        for part in parts:
            if not isinstance(kind, Struct):
                raise NotUnderstood(f"{'.'.join(parts)}, in a value of type {kind}")
            same = [column for column in kind.columns if column.name.lower() == part.lower()]
            if len(same) != 1:
                raise UnknownName(f"the name {'.'.join(parts)}, which is no column of the row")
            path.append(same[0].name)
            kind = same[0].type
        return Field(tuple(path), kind)


def understand(text: str, columns: Columns) -> Expression:
    """Raises NotUnderstood for an expression that is left to Spark."""
    return _Typing(columns).of(parse(text))


class _Typing:
    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def of(self, node: Node) -> Expression:
        match node:
            case Value():
                return _literal(node)
            case Name(parts):
                return self._columns.field(parts)
            case Function("cast", (operand,), kind) if kind is not None:
                return cast(self.of(operand), kind)
            case Function(name, arguments):
                known = [self.of(argument) for argument in arguments]
                name = _SAME_NAMES.get(name, name)
                if name in (*COMPARISONS, "and", "or", "not", "in", "like", "isnull", "isnotnull"):
                    return _condition(name, known)
                return _function(name, known)
        raise NotUnderstood(repr(node))


def _literal(value: Value) -> Literal:
    match value.kind, value.value:
        case "string", str(text):
            return Literal(text, STRING)
        case "boolean", bool(flag):
            return Literal(flag, BOOLEAN)
        case "integer", int(number):
            kind = next((kind for kind in (INT, BIGINT) if abs(number) < 1 << (31 if kind == INT else 63)), None)
            if kind is None:
                raise NotUnderstood(f"the number {number}")
            return Literal(number, kind)
        case "double", float(number):
            return Literal(number, DOUBLE)
        case "decimal", DecimalValue() as number:
            return Literal(number, _type_of_decimal(number))
        case "date", str(text):
            return Literal(_day(text), DATE)
    return Literal(None, NULL)


def _type_of_decimal(number: DecimalValue) -> Decimal:
    _, digits, exponent = number.as_tuple()
    scale = -int(exponent)
    precision = max(len(digits), scale)
    if precision > MAX_DIGITS:
        raise NotUnderstood(f"the number {number}")
    return Decimal(precision, scale)


def _day(text: str) -> date:
    try:
        if len(text) == len("2024-01-28"):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise NotUnderstood(f"the date {text!r:.40}")


def cast(operand: Expression, kind: Type) -> Expression:
    if operand.type == kind:
        return operand
    if operand.type == NULL and isinstance(kind, Atomic | Decimal):
        return Literal(None, kind)
    if kind not in _CASTS.get(operand.type, ()):
        raise NotUnderstood(f"a cast from {operand.type} to {kind}")
    return Call("cast", (operand,), kind)


# -- functions

_Signature = tuple[Sequence[Sequence[Type]], Type]
_MOMENT = (TIMESTAMP, DATE)
_TYPES: Mapping[str, _Signature] = {
    "timestamp_seconds": ((INTEGERS,), TIMESTAMP),
    "timestamp_millis": ((INTEGERS,), TIMESTAMP),
    "timestamp_micros": ((INTEGERS,), TIMESTAMP),
    "hour": (((TIMESTAMP,),), INT),
    "minute": (((TIMESTAMP,),), INT),
    "second": (((TIMESTAMP,),), INT),
    "year": ((_MOMENT,), INT),
    "month": ((_MOMENT,), INT),
    "day": ((_MOMENT,), INT),
    "lower": (((STRING,),), STRING),
    "upper": (((STRING,),), STRING),
    "trim": (((STRING,),), STRING),
    "length": (((STRING,),), INT),
}
_TRUNCATED = {"hh": "hour", "hour": "hour", "dd": "day", "day": "day", "minute": "minute"}


def _function(name: str, arguments: Sequence[Expression]) -> Expression:
    special: Mapping[str, Callable[[Sequence[Expression]], Expression]] = {
        "date": _date,
        "to_date": _date,
        "substring": _substring,
        "concat": _concat,
        "coalesce": _coalesce,
        "date_trunc": _date_trunc,
    }
    if name in special:
        return special[name](arguments)
    if name not in _TYPES:
        raise NotUnderstood(f"the function {name}")
    wanted, kind = _TYPES[name]
    if len(wanted) != len(arguments) or any(
        argument.type not in types for argument, types in zip(arguments, wanted, strict=True)
    ):
        raise NotUnderstood(f"{name}({', '.join(str(argument.type) for argument in arguments)})")
    return Call(name, tuple(arguments), kind)


def _date(arguments: Sequence[Expression]) -> Expression:
    if len(arguments) != 1:
        raise NotUnderstood("a date by a format")
    return cast(arguments[0], DATE)


def _substring(arguments: Sequence[Expression]) -> Expression:
    text, *numbers = arguments
    if (
        text.type != STRING
        or len(numbers) not in (1, 2)
        or not all(isinstance(number, Literal) and number.type == INT for number in numbers)
    ):
        raise NotUnderstood("a substring of no text, or at no constant")
    return Call("substring", tuple(arguments), STRING)


def _concat(arguments: Sequence[Expression]) -> Expression:
    if not arguments:
        raise NotUnderstood("concat of nothing")
    return Call("concat", tuple(cast(argument, STRING) for argument in arguments), STRING)


def _coalesce(arguments: Sequence[Expression]) -> Expression:
    kinds = {argument.type for argument in arguments} - {NULL}
    if kinds and kinds <= {*INTEGERS}:
        kinds = {max(kinds, key=INTEGERS.index)}
    if len(kinds) != 1:
        raise NotUnderstood("coalesce of several types")
    [kind] = kinds
    if not isinstance(kind, Atomic | Decimal):
        raise NotUnderstood(f"coalesce of {kind}")
    return Call("coalesce", tuple(cast(argument, kind) for argument in arguments), kind)


def _date_trunc(arguments: Sequence[Expression]) -> Expression:
    match arguments:
        case [Literal(str(unit)), moment] if unit.lower() in _TRUNCATED and moment.type == TIMESTAMP:
            return Call(f"date_trunc_{_TRUNCATED[unit.lower()]}", (moment,), TIMESTAMP)
    raise NotUnderstood("date_trunc of this kind")


# -- conditions


def _condition(name: str, arguments: Sequence[Expression]) -> Expression:
    if name in ("and", "or", "not"):
        if any(argument.type not in (BOOLEAN, NULL) for argument in arguments):
            raise NotUnderstood(f"{name} of {arguments[0].type}")
        return Call(name, tuple(cast(argument, BOOLEAN) for argument in arguments), BOOLEAN)
    if name in ("isnull", "isnotnull"):
        if len(arguments) != 1:
            raise NotUnderstood(f"{name} of several")
        return Call(name, tuple(arguments), BOOLEAN)
    if name == "like":
        return _like(*arguments)
    if name == "in":
        return _in(*arguments)
    return _comparison(name, *arguments)


def _like(text: Expression, pattern: Expression) -> Expression:
    if text.type != STRING or not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise NotUnderstood("like with a pattern that is no constant")
    return Call("like", (text, pattern), BOOLEAN)


def _in(value: Expression, *others: Expression) -> Expression:
    if not others or not all(isinstance(other, Literal) and other.type != NULL for other in others):
        raise NotUnderstood("in with something else than constants")
    found = _comparison("=", value, others[0])
    for other in others[1:]:
        found = Call("or", (found, _comparison("=", value, other)), BOOLEAN)
    return found


def _comparison(name: str, left: Expression, right: Expression) -> Expression:
    kind = _common_type(left, right)
    return Call(name, (_as(left, kind), _as(right, kind)), BOOLEAN)


def _common_type(left: Expression, right: Expression) -> Type:
    """The type in which both are compared. A constant takes the type of the other side only where nothing is lost."""
    one, other = left.type, right.type
    if one == other and isinstance(one, Atomic) and one != Atomic("binary"):
        return one
    if one in INTEGERS and other in INTEGERS:
        return BIGINT
    for value, kind in ((right, one), (left, other)):
        if isinstance(value, Literal) and _holds(kind, value):
            return kind
    raise NotUnderstood(f"a comparison of {one} with {other}")


def _holds(kind: Type, literal: Literal) -> bool:
    match kind, literal.value:
        case Atomic("double"), int(number):
            return literal.type in INTEGERS and abs(number) <= EXACT_IN_FLOATS
        case Atomic("double"), DecimalValue():
            return True
        case Atomic("float"), int(number):
            return literal.type in INTEGERS and abs(number) <= EXACT_IN_FLOATS
        case Decimal(precision, scale), int(number) if not isinstance(number, bool):
            return len(str(abs(number))) + scale <= min(precision, MAX_DIGITS)
        case Decimal(precision, scale), DecimalValue():
            own = literal.type
            return isinstance(own, Decimal) and own.scale <= scale and own.precision - own.scale <= precision - scale
    return False


def _as(value: Expression, kind: Type) -> Expression:
    if value.type == kind:
        return value
    if not isinstance(value, Literal):
        return cast(value, kind)
    number: Constant = value.value
    if kind in (DOUBLE, FLOAT):
        assert isinstance(number, int | float | DecimalValue)
        number = float(number)
    elif isinstance(kind, Decimal):
        assert isinstance(number, int | DecimalValue)
        number = DecimalValue(number)
    return Literal(number, kind)
