"""Texts of messages in terminals and logs: compared with what Python itself calls printable."""

import random
import unicodedata

from towpath.printable import printable


def test_nothing_that_a_terminal_obeys_is_left() -> None:
    random_ = random.Random(29)
    codes = [*range(0x300), *range(0x2000, 0x2100), 0xFEFF, 0xFFF9, 0xD800, 0xDFFF, 0xE0001, 0xE007F]
    for _ in range(2000):
        text = "".join(chr(random_.choice(codes)) for _ in range(random_.randrange(30)))
        shown = printable(text)
        obeyed = [one for one in shown if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
        assert not obeyed, (text, shown)
        assert len(printable(text * 100, 50)) < 100
        shown.encode()


def test_other_text_stays() -> None:
    for text in ("", "orders", "é 客户 😀 e\u0301", "\\x1b", "'\"<&>"):
        assert printable(text) == text
    assert printable("\x1b[2J\nb\u202e") == r"\x1b[2J\nb\u202e"
    assert printable("a\nb\x07", keep="\n") == "a\nb\\x07"
    assert printable("a" * 9, 3) == "aaa... (9 characters)"
