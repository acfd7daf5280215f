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


ENDINGS = (
    "{v}|{v} now|{v} as agreed|{v} this time|{v} again|{v} at last|{v} for sure|{v}, I think|{v}, we hear"
    "|{v}, as before|{v}, they said"
)
WHO = (
    "{s} |Now {s} |These days {s} |As it happens {s} |This year {s} |Once more {s} |Of course {s} |Today {s} "
    "|I hear that {s} |We know that {s} |Since then {s} "
)
"""With these, every opener is met in either half: templates are split as wholes."""

STATUS, _status = _pick("open", "closed", "pending", "delayed")
LEVEL, _level = _pick("low", "medium", "high")
SIZE, _size = _pick("small", "medium", "large")

AGE = Kind(
    "age|years|age years",
    _between(18, 89),
    (
        *variants(
            "{s} is |{s} is now |{s} just turned |Today {s} is |At the moment {s} is |In May {s} turned "
            "|I think {s} is |This year {s} is ",
            "{v} years old|{v} years of age|aged {v}|{v}|{v} already|{v}, they say",
        ),
        *variants(
            "Aged {v}, |At {v} years of age, |At {v}, |Being {v} years old, |With {v} years, ",
            "{s} still works|{s} keeps busy|{s} feels young|{s} travels a lot|{s} has plans|{s} sleeps well"
            "|{s} goes out daily|{s} is in good health",
        ),
        *variants(
            "{s} celebrated |{s} has had |{s} just had |Last week {s} had ",
            "birthday number {v}|a birthday, the age is {v}|a party for turning {v}|a birthday and is {v}"
            "|a {v}th birthday|a cake for {v} years",
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
            "Home is |You will find {s} in |The home of {s} is |The family lives in |{s} feels at home in "
            "|The flat is in |Friends visit {s} in |Home for {s} is |They all live in ",
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
            "By profession {s} is a |The job of {s} is |By trade {s} is a |At work {s} is a |The job: "
            "|Everyone knows {s} as a |Colleagues say {s} is a good |Work: ",
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
        "|has an office at {v}|is paid by {v}|is on the staff of {v}|signed with {v}|went to work for {v}",
    ),
)
EMAIL = Kind(
    "email|mail|contact|email address",
    lambda n: n.email(),
    variants(
        "{s} can be reached at |Write to {s} at |The address of {s} is |Mail goes to |Contact: "
        "|Letters to {s} go to |{s} uses |Messages: |For questions, write to |The inbox is "
        "|{s} reads mail at ",
        "{v}|{v} now|{v} as before|{v} at work|{v} only|{v} these days|{v} for now|{v} at home",
    ),
)
SPOKEN = Kind(
    "languages|tongues|spoken languages",
    _many(names.LANGUAGE),
    variants(
        WHO + "|At work {s} ",
        "speaks {v}|is fluent in {v}|can read {v}|has studied {v}|translates {v}|writes {v}|chats in {v}"
        "|knows {v}|learned {v} as a child|teaches {v}",
    ),
    "array",
)
HOBBIES = Kind(
    "hobbies|interests|pastimes",
    _many(names.HOBBY),
    variants(
        WHO + "|In summer {s} |At weekends {s} ",
        "enjoys {v}|loves {v}|goes in for {v}|spends time on {v}|is fond of {v}|likes {v}|has fun with {v}"
        "|talks about {v}|is good at {v}|gave up a job for {v}",
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
        "ordered a {v}|bought a {v}|paid for a {v}|picked a {v}|asked for a {v}|chose a {v}|wants a {v}"
        "|needs a {v}|reserved a {v}|took home a {v}|found a {v}",
    ),
)
QUANTITY = Kind(
    "quantity|amount|count|units|pieces",
    _between(2, 60),
    variants(
        "The order is for |They want |{s} needs |In total, |The basket holds |Please send "
        "|{s} asked for |We pack |The box has |We ship |Make it ",
        "{v} pieces|{v} units|{v} of them|{v} in all|{v} of these|{v} items|{v} in one box|{v} altogether",
    ),
    "integer",
)
PRICE = Kind(
    "price|cost|total|sum",
    _between(5, 990),
    variants(
        "The price is |It costs |The bill comes to |The total is |{s} paid |It sells for "
        "|Together that makes |They ask |It was sold for |One pays |The bill says ",
        "{v} euros|{v} dollars|{v} pounds|{v} francs|{v} crowns|{v} in cash|{v} yen|{v} by card|{v} rupees",
    ),
    "integer",
)
ORDER_ID = Kind(
    "order id|reference|order number|order code",
    lambda n: n.code(),
    variants(
        "The order number is |The reference is |It is filed under |Order |Please quote |The code for it is "
        "|Look it up under |The receipt shows |The parcel has ",
        ENDINGS,
    ),
)
DAY = Kind(
    "day|weekday|day of week",
    _of(names.WEEKDAY),
    variants(
        "It arrives on |The delivery comes on |Expect it on |It will take place on |It is planned for "
        "|Keep free |We said |It is set for |They come on |It was moved to ",
        ENDINGS,
    ),
)
DATE = Kind(
    "date|deadline|calendar date",
    lambda n: n.date(),
    variants(
        "The date is |It starts on |The deadline is |It is due on |Mark the date: |It all begins on "
        "|It must be ready by |The calendar says |Come on ",
        ENDINGS,
    ),
)
TIME = Kind(
    "time|hour|clock time",
    lambda n: n.time(),
    variants(
        "It begins at |Doors open at |The start is at |Be there at |We meet at |It opens at |Come at "
        "|The clock says |The first talk is at |Arrive by ",
        ENDINGS + "|{v} sharp",
    ),
)
STATE = Kind(
    "status|state|progress",
    _status,
    variants(
        "The case is |Right now it is |It is still |The ticket is |At present it is |The status is "
        "|The file is |Everything is |It has been |The matter is ",
        ENDINGS,
    ),
    "enum",
    STATUS,
)
URGENCY = Kind(
    "priority|urgency|importance",
    _level,
    variants(
        "The priority is |It has a priority of |The urgency is |They call the urgency |It was marked "
        "|For us the priority is |Its urgency is |The boss calls it |Treat it as ",
        ENDINGS,
    ),
    "enum",
    LEVEL,
)
FORMAT = Kind(
    "size|format|package size",
    _size,
    variants(
        "The size is |They chose size |It comes in |The package is |Size: |The box is |It should be "
        "|The model is |Make it |It looks ",
        ENDINGS,
    ),
    "enum",
    SIZE,
)
COLOUR = Kind(
    "colour|color|shade|paint",
    _of(names.COLOUR),
    variants(
        "The colour is |It is painted |It was made in |It should be |The shade is |The paint is "
        "|They chose it in |It comes in |It looks |The outside is ",
        ENDINGS,
    ),
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
        "It takes place in |The event is held in |The venue is in |People meet in |It was moved to "
        "|Everyone travels to |The doors open in |This year it is in |They booked a hall in ",
        ENDINGS,
    ),
)
GUESTS = Kind(
    "guests|visitors|people|attendees|seats",
    _between(8, 900),
    variants(
        "We expect |There is room for |Around |A list of |It is booked for |They plan for |Seats for "
        "|Last year there were |The hall holds |There will be ",
        "{v} guests|{v} people|{v} visitors|{v} in all|{v} persons|{v} friends|{v} fans|{v} at most",
    ),
    "integer",
)
HOST = Kind(
    "host|speaker|organiser|contact person",
    lambda n: n.person(),
    variants(
        "The host is |It is organised by |The evening is led by |The main speaker is |Ask for "
        "|The talk is by |Everyone listens to |It is hosted by |The idea came from |Thanks go to ",
        ENDINGS,
    ),
)
TOPPINGS = Kind(
    "toppings|ingredients|food|menu",
    _many(names.TOPPING),
    variants(
        "The kitchen uses |It comes with |The dish has |On the plate are |There will be "
        "|We serve |They cook |You can taste |Try the |Everyone eats |The chef likes |We bought ",
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


PRESENTED = "{v}.|{v}!|{v} today.|{v} again.|{v}, as planned.|{v} at last.|{v}, as I said.|{v} now."

SUBJECTS = (
    Subject(
        "person",
        "name|person|full name|client|employee",
        lambda n: n.person(),
        variants(
            "Meet |This is |Our new neighbour is |Let me introduce |A note about |Here is |Say hello to "
            "|We talked to |Do you know |The form is about |Yesterday I met |Please welcome |A few words on ",
            PRESENTED,
        ),
        (AGE, CITY, JOB, EMPLOYER, EMAIL, SPOKEN, HOBBIES, MARRIED),
    ),
    Subject(
        "order",
        "customer|buyer|client|name",
        lambda n: n.person(),
        variants(
            "A new order came in from |The customer is |We got a call from |A message from |The buyer is "
            "|An order by |There is mail from |We sold something to |Serve |We are waiting for "
            "|The order was placed by |The parcel is for ",
            PRESENTED,
        ),
        (PRODUCT, QUANTITY, PRICE, ORDER_ID, DAY, STATE, FORMAT, COLOUR, PAID, CITY, URGENCY),
    ),
    Subject(
        "event",
        "event|title|occasion|name",
        lambda n: f"{n.made(2)} {n.rng.choice(names.OCCASION)}",
        variants(
            "You are invited to the |Do not miss the |Plans for the |News about the |Tickets for the "
            "|Welcome to the |Notes on the |We look forward to the |Come to the |This is about the "
            "|Remember the |Help wanted at the ",
            PRESENTED,
        ),
        (VENUE, DATE, TIME, DAY, GUESTS, HOST, TOPPINGS, PRICE, STATE),
    ),
)
