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


ENDINGS = "{v}|{v} now|{v} as agreed|{v} this time|{v} again|{v} at last|{v} for sure"
WHO = "{s} |Now {s} |These days {s} |As it happens {s} |This year {s} |Once more {s} |Of course {s} "
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
        *variants(
            "Aged {v}, |At {v} years of age, |At {v}, |Being {v} years old, |With {v} years, ",
            "{s} still works|{s} keeps busy|{s} feels young|{s} travels a lot|{s} has plans",
        ),
        *variants(
            "{s} celebrated |{s} has had |{s} just had |Last week {s} had ",
            "birthday number {v}|a birthday, the age is {v}|a party for turning {v}",
        ),
    ),
    "integer",
)
CITY = Kind(
    "city|town|home|residence|place",
    lambda n: n.word(names.CITY),
    (
        *variants(
            WHO,
            "lives in {v}|comes from {v}|is based in {v}|has a flat in {v}|moved to {v}|calls {v} home"
            "|can be found in {v}|settled in {v}|rents a house in {v}",
        ),
        *variants(
            "Home is |You will find {s} in |The home of {s} is |The family lives in |{s} feels at home in ",
            ENDINGS,
        ),
    ),
)
JOB = Kind(
    "job|occupation|profession|work|trade",
    _of(names.JOB),
    (
        *variants(
            WHO,
            "works as a {v}|has worked as a {v}|earns a living as a {v}|is employed as a {v}"
            "|trained to be a {v}|got a job as a {v}|makes money as a {v}",
        ),
        *variants(
            "By profession {s} is a |The job of {s} is |By trade {s} is a |At work {s} is a |The job: ",
            ENDINGS,
        ),
    ),
)
EMPLOYER = Kind(
    "employer|company|firm|workplace",
    lambda n: n.company(),
    variants(
        WHO + "|Since May {s} ",
        "works for {v}|is employed by {v}|has a contract with {v}|got hired by {v}|joined {v}"
        "|has an office at {v}|is paid by {v}",
    ),
)
EMAIL = Kind(
    "email|mail|contact|email address",
    lambda n: n.email(),
    variants(
        "{s} can be reached at |Write to {s} at |The address of {s} is |Mail goes to |Contact: "
        "|Letters to {s} go to |{s} uses |Messages: ",
        "{v}|{v} now|{v} as before|{v} at work|{v} only|{v} these days",
    ),
)
SPOKEN = Kind(
    "languages|tongues|spoken languages",
    _many(names.LANGUAGE),
    variants(
        WHO + "|At work {s} ",
        "speaks {v}|is fluent in {v}|can read {v}|has studied {v}|translates {v}|writes {v}|chats in {v}",
    ),
    "array",
)
HOBBIES = Kind(
    "hobbies|interests|pastimes",
    _many(names.HOBBY),
    variants(
        WHO + "|In summer {s} |At weekends {s} ",
        "enjoys {v}|loves {v}|goes in for {v}|spends time on {v}|is fond of {v}|likes {v}|has fun with {v}",
    ),
    "array",
)
MARRIED = Kind(
    "married|is married|marriage",
    _bool,
    variants(
        WHO + "|For a year {s} ",
        "is married|is happily married|got married|is a married person|has been married",
    ),
    "boolean",
    denies=variants(
        WHO + "|For a year {s} ",
        "is not married|is unmarried|never married|is single|has not married|stays single",
    ),
)
PRODUCT = Kind(
    "product|item|article|goods|purchase",
    lambda n: n.product(),
    variants(
        WHO + "|Last week {s} |On Friday {s} |Online, {s} ",
        "ordered a {v}|bought a {v}|paid for a {v}|picked a {v}|asked for a {v}|chose a {v}|wants a {v}",
    ),
)
QUANTITY = Kind(
    "quantity|amount|count|units|pieces",
    _between(2, 60),
    variants(
        "The order is for |They want |{s} needs |In total, |The basket holds |Please send "
        "|{s} asked for |We pack ",
        "{v} pieces|{v} units|{v} of them|{v} in all|{v} of these|{v} items",
    ),
    "integer",
)
PRICE = Kind(
    "price|cost|total|sum",
    _between(5, 990),
    variants(
        "The price is |It costs |The bill comes to |The total is |{s} paid |It sells for "
        "|Together that makes ",
        "{v} euros|{v} dollars|{v} pounds|{v} francs|{v} crowns|{v} in cash",
    ),
    "integer",
)
ORDER_ID = Kind(
    "order id|reference|order number|order code",
    lambda n: n.code(),
    variants(
        "The order number is |The reference is |It is filed under |Order |Please quote |The code for it is ",
        ENDINGS,
    ),
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
        "It begins at |Doors open at |The start is at |Be there at |We meet at |It opens at |Come at ",
        ENDINGS + "|{v} sharp",
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
    variants(
        "The bill |The order |So far it |As of today it |This time it |Now it ",
        "is paid|has been paid|is already paid|was paid|has been settled",
    ),
    "boolean",
    denies=variants(
        "The bill |The order |So far it |As of today it |This time it |Now it ",
        "is not paid|has not been paid|is unpaid|was never paid|has not been settled",
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
        "We expect |There is room for |Around |A list of |It is booked for |They plan for |Seats for ",
        "{v} guests|{v} people|{v} visitors|{v} in all|{v} persons",
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
    variants(
        "The kitchen uses |It comes with |The dish has |On the plate are |There will be "
        "|We serve |They cook ",
        ENDINGS,
    ),
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
