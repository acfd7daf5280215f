"""Values that texts are about: people, places, companies, things, codes; split by hash into two halves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from random import Random


def words(text: str) -> list[str]:
    """Split a pool that is written as one string."""
    return text.split()


FIRST = words(
    """Ada Aldo Alma Amir Anton Asha Bella Bruno Carla Dana Dario Dmitri Edith Elif Emil Esther Farid
    Fiona Gita Greta Hanna Hugo Ines Ivan Jana Jonas Julia Kai Karim Lara Leon Lina Luca Mara Marek
    Mina Nadia Nils Nora Olga Omar Oscar Petra Priya Quentin Rafael Rosa Ruth Samir Sara Silas Sven
    Tara Tomas Ursula Vera Viktor Wanda Xenia Yara Yusuf Zara Zeno Boris Clara David
    Elena Felix Grace Henry Irene James Kevin Laura Maria Nathan Paul Robert Sofia Thomas Victor
    William Alice Charlotte George Oliver Emma Peter Martin Daniel Abel Beatrix Cedric Diana Edgar
    Flora Gustav Hedda Igor Judith Klaus Leila Milan Naomi Otto Paula Ralph Selma Timo Vivian Walter
    Aisha Bjorn Clemens Doris Erik Frida Gideon Helga Imran Joana Kirsten Lorenzo Mona Noel Pia Rashid
    Simone Tess Ulrich Valerie"""
)
LAST = words(
    """Abbott Adler Almeida Bauer Becker Brandt Castro Chen Costa Dahl Devi Diaz Duval Ekman Farkas Ferrari
    Fuchs Garcia Ghosh Haas Hansen Ito Ivanov Jansen Kaya Keller Klein Kovac Kumar Lang
    Larsen Lopez Maier Marin Meyer Mori Moreau Nagy Novak Okafor Olsen Ortiz Patel Petrov Popov
    Quinn Rao Rossi Ruiz Saito Sato Silva Singh Smith Sokol Stein Tanaka Torres Ueda Varga
    Wagner Weber Wolf Yilmaz Young Zhang Ziegler Carter Collins Cooper Evans Foster Hughes Jenkins
    Morgan Parker Reed Turner Walker Ward Watson Ahmed Barros Conti Dubois Engel Fontana Gruber Horvat
    Ibsen Jovanovic Kraus Lindgren Mancini Nielsen Oliveira Pavlov Renner Santos Takeda Urban Vasquez
    Winter Yamada Zeller Bishop Crane Dawson Ellis Frost Grant Hale Irwin Joyce Knox Lowe Marsh Norris
    Page Quick Ross Shaw Todd Vance West"""
)
CITY = words(
    """Aarhus Accra Athens Basel Bergen Berlin Bilbao Bologna Boston Bremen Bruges Cairo Calgary Cardiff
    Chicago Cologne Cork Dakar Delft Denver Dresden Dublin Florence Geneva Ghent Glasgow Graz Haifa
    Hamburg Hanoi Havana Helsinki Izmir Jaipur Kyoto Lagos Leeds Leipzig Lima Lisbon Ljubljana
    London Lyon Madrid Malmo Manila Milan Montreal Munich Nairobi Nantes Naples Oslo Ottawa Padua
    Paris Porto Prague Quito Riga Rome Rotterdam Seoul Seville Sofia Split Tallinn Toronto Trieste
    Turin Utrecht Vienna Vilnius Warsaw Zagreb Zurich"""
)
FIRM = words(
    """Systems Labs Foods Motors Works Partners Media Energy Logistics Studio Group Textiles Robotics Bank
    Press Travel Paper Optics Games Design Steel Films Airways Brewery"""
)
THING = words(
    """lamp table chair kettle bicycle camera drill laptop rug sofa toaster violin tent watch mirror
    printer heater guitar backpack helmet ladder blender desk clock fan radio stove mattress shelf
    scooter basket bench bottle bucket carpet candle cup drum fridge flute hammer jacket jar kite
    lantern mug oven pan pillow piano ring saddle saw sled spoon stool suitcase tray umbrella vase
    wallet wheel whistle"""
)
MATERIAL = words(
    """oak steel glass copper wool leather bamboo marble plastic ceramic silver cotton pine iron linen
    brass clay cork felt granite jade paper rubber silk stone tin velvet walnut wicker"""
)
COLOUR = words(
    """red blue green teal amber violet grey white black orange brown crimson ivory navy olive pink
    beige bronze coral cream gold indigo khaki lilac lime maroon mint peach purple ruby rust sand
    scarlet turquoise yellow"""
)
LANGUAGE = words(
    """Arabic Basque Czech Danish Dutch Finnish French Greek Hindi Irish Korean Latin Polish Thai
    Welsh Albanian Bengali Bulgarian Catalan Croatian English Estonian German Hebrew Hungarian Icelandic
    Italian Japanese Latvian Maltese Mandarin Norwegian Persian Portuguese Romanian Russian Serbian
    Slovak Spanish Swahili Swedish Tamil Turkish Ukrainian Urdu Vietnamese Zulu"""
)
JOB = words(
    """nurse baker pilot lawyer plumber teacher chemist farmer architect editor welder surgeon waiter cook
    painter librarian dentist sailor tailor guard florist geologist translator barber butcher
    carpenter cashier clerk coach courier dancer driver electrician engineer gardener glazier hunter
    janitor jeweller judge locksmith miller miner optician plasterer porter potter printer roofer
    singer surveyor tutor weaver writer"""
)
HOBBY = words(
    """chess rowing pottery sailing climbing knitting fencing judo archery painting cycling gardening
    surfing baking boxing bowling camping canoeing carving collecting cooking crochet dancing darts
    diving drawing drumming fishing golf hiking hockey hunting jogging juggling karate kayaking poker
    photography quilting reading riding rugby running sculpture sewing singing skating skiing snooker
    swimming tennis travelling volleyball walking weaving wrestling writing yoga"""
)
TOPPING = words(
    """olives ham basil mushrooms onions garlic peppers capers tuna cheese corn lentils rice
    almonds apples artichokes bacon beans beetroot bread broccoli butter cabbage carrots celery
    chicken chili cream cucumber eggs figs fennel ginger grapes honey leeks lemons lettuce mango mint
    mustard noodles nuts oranges parsley peas pears pineapple potatoes prawns pumpkin raisins radish
    salmon sausage shrimp tofu tomatoes turkey walnuts yoghurt"""
)
OCCASION = words("Fair Meeting Festival Concert Workshop Dinner Party Summit Race Show Ball Exhibition")
WEEKDAY = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTH = words("January February March April May June July August September October November December")

ONSET = words("b br c ch d dr f fl g gr h j k kl l m n p pr qu r s sh st t tr v w y z")
NUCLEUS = words("a e i o u ai ea ia io oo ou")
CODA = ["", "", "", "l", "n", "r", "s", "t", "k", "m", "nd", "x", "rt", "sh"]


def is_unseen(text: str) -> bool:
    """Tell which half `text` belongs to: the low bit of its BLAKE2b hash. Only one is trained on."""
    return bool(blake2b(text.encode(), digest_size=4).digest()[0] & 1)


@cache
def half(pool: tuple[str, ...], unseen: bool) -> tuple[str, ...]:
    """Return the wanted half of a fixed pool: its entries in the order of their hashes, cut in the middle."""
    ranked = sorted(dict.fromkeys(pool), key=lambda text: blake2b(text.encode(), digest_size=8).digest())
    middle = (len(ranked) + 1) // 2
    return tuple(ranked[middle:] if unseen else ranked[:middle])


def syllables(rng: Random, least: int = 1, most: int = 3) -> str:
    """Draw a made-up lower-case word of `least` to `most` syllables."""
    parts = [
        rng.choice(ONSET) + rng.choice(NUCLEUS) + rng.choice(CODA) for _ in range(rng.randint(least, most))
    ]
    return "".join(parts)


@dataclass
class Names:
    """Draws values of one half. `made_up` is the share of names and words that are random syllables.

    Pools are so small that a reader would learn their entries instead of copying from the text.
    `hard` is the share of those that are hard to copy: numbers that have few different digits, and words put
    together from `pieces`. With all the pieces of a vocabulary each of its tokens comes to be copied: of the
    shipped one's, a third begins or continues nothing that pools and syllables yield, and a token that was
    never an answer is not found again in the text.
    """

    rng: Random
    unseen: bool
    made_up: float = 0.55
    hard: float = 0.0
    pieces: tuple[str, ...] = ()

    def digits(self, count: int) -> str:
        """Draw `count` digits, the first of them not 0."""
        pool = self.rng.sample("0123456789", 2) if self.rng.random() < self.hard else "0123456789"
        first = self.rng.choice([digit for digit in pool if digit != "0"])
        return first + "".join(self.rng.choice(pool) for _ in range(count - 1))

    def word(self, pool: list[str]) -> str:
        """Draw one entry of `pool` from this half, or a made-up one."""
        return self.disguised(self.rng.choice(half(tuple(pool), self.unseen)))

    def disguised(self, word: str) -> str:
        """Draw what stands for `word`: itself, or a made-up word in its case."""
        if self.rng.random() >= self.made_up:
            return word
        return self.made() if word[0].isupper() else self.made(2, capital=False)

    def pieced(self, capital: bool) -> str:
        """Draw a word of this half that consists of one to three pieces, the first with a capital or not."""
        small = [piece for piece in self.pieces if piece.islower()]
        first = [piece for piece in self.pieces if piece.istitle()] if capital else small
        while True:
            word = self.rng.choice(first) + "".join(self.rng.choices(small, k=self.rng.randint(0, 2)))
            if is_unseen(word) == self.unseen:
                return word

    def made(self, most: int = 3, capital: bool = True) -> str:
        """Draw a made-up word from this half, of up to `most` syllables where it is made of those."""
        if self.rng.random() < self.hard:
            return self.pieced(capital)
        while True:
            word = syllables(self.rng, 2 if most > 2 else 1, most)
            if is_unseen(word.capitalize()) == self.unseen:
                return word.capitalize() if capital else word

    def person(self) -> str:
        """Draw a first and last name; sometimes a double or a single name."""
        roll = self.rng.random()
        if roll < 0.1:
            return self.word(FIRST)
        last = self.word(LAST)
        if roll < 0.17:
            last = f"{last}-{self.word(LAST)}"
        return f"{self.word(FIRST)} {last}"

    def company(self) -> str:
        """Draw a company, such as `Brolkea Systems` or `Reed & Tolvan`."""
        if self.rng.random() < 0.25:
            return f"{self.word(LAST)} & {self.word(LAST)}"
        return f"{self.word(LAST)} {self.rng.choice(FIRM)}"

    def product(self) -> str:
        """Draw a thing with a material, a colour or a brand."""
        roll = self.rng.random()
        if roll < 0.4:
            return f"{self.made(2)} {self.word(THING)}"
        return f"{self.word(MATERIAL if roll < 0.7 else COLOUR)} {self.word(THING)}"

    def code(self) -> str:
        """Draw letters and digits, such as `KX-4471`."""
        letters = "".join(self.rng.choice("ABCDEFGHJKLMNPRSTUVWXYZ") for _ in range(self.rng.randint(1, 3)))
        digits = self.digits(self.rng.randint(2, 4))
        return f"{letters}-{digits}" if self.rng.random() < 0.7 else f"{letters}{digits}"

    def date(self) -> str:
        """Draw a date: `14 March`, `March 14, 2025` or `2025-03-14`."""
        day, year = self.rng.randint(1, 28), self.rng.randint(1990, 2029)
        month = self.rng.randrange(12)
        forms = (
            f"{day} {MONTH[month]}",
            f"{MONTH[month]} {day}, {year}",
            f"{year}-{month + 1:02d}-{day:02d}",
        )
        return self.rng.choice(forms)

    def time(self) -> str:
        """Draw a clock time, `14:30`."""
        return f"{self.rng.randint(6, 22)}:{self.rng.choice(('00', '15', '20', '30', '40', '45'))}"

    def email(self) -> str:
        """Draw a made-up e-mail address."""
        user, site = (self.made(2, capital=False) for _ in range(2))
        return f"{user}@{site}.{self.rng.choice(('com', 'org', 'net'))}"

    def several(self, pool: list[str]) -> list[str]:
        """Draw two or three different entries of `pool`, some of them made up."""
        return [
            self.disguised(w) for w in self.rng.sample(half(tuple(pool), self.unseen), self.rng.randint(2, 3))
        ]
