"""What can be asked for: kinds of fields with their keys, values and sentences, grouped by subject.

A sentence template has `{s}` for the subject and `{v}` for the value. Keys and templates are split by hash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from demo import names
from demo.names import Names
from demo.phrases import variants

QUALIFIERS = "main|current|given|stated|listed|known|exact|noted|reported|final"
Value: TypeAlias = str | int | bool | list[str] | None


@dataclass(frozen=True)
class Kind:
    """One kind of field: the words for it, how a value is drawn, and the sentences that state it."""

    heads: str
    draw: Callable[[Names], Value]
    says: tuple[str, ...]
    type: str = "string"
    choices: tuple[str, ...] = ()
    denies: tuple[str, ...] = ()


@cache
def labels(heads: str) -> tuple[str, ...]:
    """All names of a field: each head alone and after each qualifier, such as `age` and `stated age`."""
    plain = heads.split("|")
    return (*plain, *(f"{qualifier} {head}" for head in plain for qualifier in QUALIFIERS.split("|")))


def _between(low: int, high: int) -> Callable[[Names], Value]:
    return lambda n: n.rng.randint(low, high)


def _of(pool: list[str]) -> Callable[[Names], Value]:
    return lambda n: n.word(pool)


def _many(pool: list[str]) -> Callable[[Names], Value]:
    return lambda n: n.several(pool)


def _pick(*choices: str) -> tuple[tuple[str, ...], Callable[[Names], Value]]:
    return choices, lambda n: n.rng.choice(choices)


def _bool(n: Names) -> Value:
    return n.rng.random() < 0.5


ENDINGS = "{v}|{v} now|{v} as agreed|{v} this time"
"""With these, every opener is met in either half: templates are split as wholes."""

STATUS, _status = _pick("open", "closed", "pending", "delayed")
LEVEL, _level = _pick("low", "medium", "high")
SIZE, _size = _pick("small", "medium", "large")

AGE = Kind(
    "age|years|age years",
    _between(18, 89),
    (
        *variants(
            "{s} is |{s} is now |{s} just turned |Today {s} is |At the moment {s} is ",
            "{v} years old|{v} years of age|aged {v}|{v}",
        ),
        "Aged {v}, {s} still works",
        "At {v} years of age, {s} keeps busy",
        "{s} celebrated birthday number {v}",
    ),
    "integer",
)
CITY = Kind(
    "city|town|home|residence|place",
    lambda n: n.word(names.CITY),
    (
        *variants(
            "{s} |Now {s} |These days {s} ",
            "lives in {v}|comes from {v}|is based in {v}|has a flat in {v}|moved to {v}",
        ),
        "{s} calls {v} home",
        "Home is {v}",
        "You will find {s} in {v}",
    ),
)
JOB = Kind(
    "job|occupation|profession|work|trade",
    _of(names.JOB),
    (
        *variants(
            "{s} |Now {s} |For years {s} ",
            "works as a {v}|has worked as a {v}|earns a living as a {v}|is employed as a {v}",
        ),
        "The job: {v}",
        "By profession {s} is a {v}",
        "{s} trained to be a {v}",
    ),
)
EMPLOYER = Kind(
    "employer|company|firm|workplace",
    lambda n: n.company(),
    variants(
        "{s} |Now {s} |Since May {s} ",
        "works for {v}|is employed by {v}|has a contract with {v}|got hired by {v}|joined {v}",
    ),
)
EMAIL = Kind(
    "email|mail|contact|email address",
    lambda n: n.email(),
    variants(
        "{s} can be reached at |Write to {s} at |The address of {s} is |Mail goes to |Contact: ",
        "{v}|{v} now|{v} as before|{v} at work",
    ),
)
SPOKEN = Kind(
    "languages|tongues|spoken languages",
    _many(names.LANGUAGE),
    variants("{s} |Also, {s} |At work {s} ", "speaks {v}|is fluent in {v}|can read {v}|has studied {v}"),
    "array",
)
HOBBIES = Kind(
    "hobbies|interests|pastimes",
    _many(names.HOBBY),
    variants(
        "{s} |In summer {s} |At weekends {s} ", "enjoys {v}|loves {v}|goes in for {v}|spends time on {v}"
    ),
    "array",
)
MARRIED = Kind(
    "married|is married|marriage",
    _bool,
    ("{s} is married", "{s} is happily married", "{s} got married last year", "{s} is a married person"),
    "boolean",
    denies=("{s} is not married", "{s} is unmarried", "{s} never married", "{s} is single"),
)
PRODUCT = Kind(
    "product|item|article|goods|purchase",
    lambda n: n.product(),
    variants(
        "{s} |Last week {s} |On Friday {s} |Online, {s} ",
        "ordered a {v}|bought a {v}|paid for a {v}|picked a {v}|asked for a {v}",
    ),
)
QUANTITY = Kind(
    "quantity|amount|count|units|pieces",
    _between(2, 60),
    variants(
        "The order is for |They want |{s} needs |In total, |The basket holds ",
        "{v} pieces|{v} units|{v} of them",
    ),
    "integer",
)
PRICE = Kind(
    "price|cost|total|sum",
    _between(5, 990),
    variants(
        "The price is |It costs |The bill comes to |The total is |{s} paid ",
        "{v} euros|{v} dollars|{v} pounds|{v} francs",
    ),
    "integer",
)
ORDER_ID = Kind(
    "order id|reference|order number|order code",
    lambda n: n.code(),
    variants("The order number is |The reference is |It is filed under |Order |Please quote ", ENDINGS),
)
DAY = Kind(
    "day|weekday|day of week",
    _of(names.WEEKDAY),
    variants(
        "It arrives on |The delivery comes on |Expect it on |It will take place on |It is planned for ",
        ENDINGS,
    ),
)
DATE = Kind(
    "date|deadline|calendar date",
    lambda n: n.date(),
    variants("The date is |It starts on |The deadline is |It is due on |Mark the date: ", ENDINGS),
)
TIME = Kind(
    "time|hour|clock time",
    lambda n: n.time(),
    variants(
        "It begins at |Doors open at |The start is at |Be there at |We meet at ", ENDINGS + "|{v} sharp"
    ),
)
STATE = Kind(
    "status|state|progress",
    _status,
    variants(
        "The case is |Right now it is |It is still |The ticket is |At present it is |The status is ", ENDINGS
    ),
    "enum",
    STATUS,
)
URGENCY = Kind(
    "priority|urgency|importance",
    _level,
    variants(
        "The priority is |It has a priority of |The urgency is |They call the urgency |It was marked ",
        ENDINGS,
    ),
    "enum",
    LEVEL,
)
FORMAT = Kind(
    "size|format|package size",
    _size,
    variants("The size is |They chose size |It comes in |The package is |Size: ", ENDINGS),
    "enum",
    SIZE,
)
COLOUR = Kind(
    "colour|color|shade|paint",
    _of(names.COLOUR),
    variants("The colour is |It is painted |It was made in |It should be |The shade is ", ENDINGS),
)
PAID = Kind(
    "paid|is paid|payment done",
    _bool,
    ("The bill is paid", "It has been paid", "The payment has arrived", "{s} has already paid"),
    "boolean",
    denies=(
        "The bill is not paid",
        "It has not been paid",
        "The payment has not arrived",
        "{s} has not paid",
    ),
)
VENUE = Kind(
    "venue|location|site|where",
    lambda n: n.word(names.CITY),
    variants(
        "It takes place in |The event is held in |The venue is in |People meet in |It was moved to ", ENDINGS
    ),
)
GUESTS = Kind(
    "guests|visitors|people|attendees|seats",
    _between(8, 900),
    variants(
        "We expect |There is room for |Around |A list of |It is booked for ",
        "{v} guests|{v} people|{v} visitors",
    ),
    "integer",
)
HOST = Kind(
    "host|speaker|organiser|contact person",
    lambda n: n.person(),
    variants(
        "The host is |It is organised by |The evening is led by |The main speaker is |Ask for ", ENDINGS
    ),
)
TOPPINGS = Kind(
    "toppings|ingredients|food|menu",
    _many(names.TOPPING),
    variants("The kitchen uses |It comes with |The dish has |On the plate are |There will be ", ENDINGS),
    "array",
)


@dataclass(frozen=True)
class Subject:
    """What a text is about: words for its name and the draw of it, how it opens, what it may state."""

    title: str
    heads: str
    draw: Callable[[Names], Value]
    opens: tuple[str, ...]
    kinds: tuple[Kind, ...]


SUBJECTS = (
    Subject(
        "person",
        "name|person|full name|client|employee",
        lambda n: n.person(),
        variants(
            "Meet |This is |Our new neighbour is |Let me introduce |A note about |Here is ",
            "{v}.|{v}!",
        ),
        (AGE, CITY, JOB, EMPLOYER, EMAIL, SPOKEN, HOBBIES, MARRIED),
    ),
    Subject(
        "order",
        "customer|buyer|client|name",
        lambda n: n.person(),
        variants(
            "A new order came in from |The customer is |We got a call from |A message from |The buyer is ",
            "{v}.|{v} today.",
        ),
        (PRODUCT, QUANTITY, PRICE, ORDER_ID, DAY, STATE, FORMAT, COLOUR, PAID, CITY, URGENCY),
    ),
    Subject(
        "event",
        "event|title|occasion|name",
        lambda n: (
            f"{n.made(2)} {n.rng.choice(('Fair', 'Meeting', 'Festival', 'Concert', 'Workshop', 'Dinner'))}"
        ),
        variants(
            "You are invited to the |Do not miss the |Plans for the |News about the |Tickets for the ",
            "{v}.|{v}!",
        ),
        (VENUE, DATE, TIME, DAY, GUESTS, HOST, TOPPINGS, PRICE, STATE),
    ),
)
