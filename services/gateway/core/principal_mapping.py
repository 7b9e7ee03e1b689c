"""Kafka's `ssl.principal.mapping.rules`: short names of principals, from the names in certificates. No I/O.

A rule is `RULE:pattern/replacement/` with L or U behind it, for lower or upper case, or `DEFAULT`. The first whose pattern is the
whole name decides. Patterns are those of RE2, which take linear time: whoever makes a certificate cannot stop a gateway. RE2 has
no look-around and no back-references within a pattern.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import re2

from libs.lean_dataclass import dataclass

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_PARSER: Final = re.compile(_RULE)
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_REPLACED: Final = re.compile(r"\\(.)|\$(\d+)|(\$|\\$)", re.DOTALL)


class WrongRule(ValueError):
    """A rule that is none. Its text is a sentence for the operator."""


class NoRuleFits(ValueError):
    """A name for which no rule holds: its client is nobody."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: Any
    """None: DEFAULT."""
    replacement: str = ""
    letters: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        made: list[str] = []
        at = 0
        for match in self.pattern.finditer(name):
            made += name[at : match.start()], self._expanded(match)
            at = match.end()
        mapped = "".join((*made, name[at:]))
        return mapped.lower() if self.letters == "L" else mapped.upper() if self.letters == "U" else mapped

    def _expanded(self, match: Any) -> str:
        """Java's `Matcher.appendReplacement`, with Kafka's rule that a group which is not there stands for itself."""
        groups = self.pattern.groups

        def expand(found: re.Match[str]) -> str:
            literal, digits, _ = found.groups()
            if digits is None:
                return literal or ""
            used = 1
            while used < len(digits) and int(digits[: used + 1]) <= groups:
                used += 1
            number = int(digits[:used])
            return (match[number] or "") + digits[used:] if number <= groups else f"${digits}"

        return _REPLACED.sub(expand, self.replacement)


class PrincipalMapping:
    """The rules of a gateway."""

    def __init__(self, rules: str) -> None:
        """Raises WrongRule, also for a list without a rule, by which no client could be anybody."""
        self._rules: Sequence[_Rule] = [rule for text in _split(rules) if (rule := _parsed(text)) is not None]
        if not self._rules:
            raise WrongRule("it has no rule, so no client could log in; DEFAULT gives each the whole name of its certificate")

    def name_of(self, distinguished_name: str) -> str:
        """Raises NoRuleFits."""
        for rule in self._rules:
            if (name := rule.apply(distinguished_name)) is not None:
                return name
        raise NoRuleFits(f"no rule of PENSTOCK_SSL_PRINCIPAL_MAPPING_RULES fits {distinguished_name}")


def _split(rules: str) -> list[str]:
    return [found[1] for found in _SPLITTER.finditer(rules.strip())]


def _parsed(text: str) -> _Rule | None:
    """None: it is empty, and says nothing."""
    found = _PARSER.match(text)
    if found is None or found.end() != len(text):
        raise WrongRule(f"{text!r} is no rule: expected RULE:pattern/replacement/, RULE:pattern/replacement/L, …/U, or DEFAULT")
    default, pattern, replacement, letters, _ = found.groups()
    if default is not None:
        return _Rule(None)
    if pattern is None:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise WrongRule(f"the pattern of {text!r} is not one of RE2: {error}") from None
    for _, digits, dollar in _REPLACED.findall(replacement):
        if dollar or (digits and not compiled.groups and int(digits)):
            raise WrongRule(f"the replacement of {text!r} names a group that its pattern does not have")
    return _Rule(compiled, replacement, letters)
