"""Country codes, ISO 3166-1 alpha-2."""

from __future__ import annotations

from difflib import get_close_matches

from problems.scan import UnitError, shown

_PACKED = (
    "ADAEAFAGAIALAMAOAQARASATAUAWAXAZBABBBDBEBFBGBHBIBJBLBMBNBOBQBRBS"
    "BTBVBWBYBZCACCCDCFCGCHCICKCLCMCNCOCRCUCVCWCXCYCZDEDJDKDMDODZECEE"
    "EGEHERESETFIFJFKFMFOFRGAGBGDGEGFGGGHGIGLGMGNGPGQGRGSGTGUGWGYHKHM"
    "HNHRHTHUIDIEILIMINIOIQIRISITJEJMJOJPKEKGKHKIKMKNKPKRKWKYKZLALBLC"
    "LILKLRLSLTLULVLYMAMCMDMEMFMGMHMKMLMMMNMOMPMQMRMSMTMUMVMWMXMYMZNA"
    "NCNENFNGNINLNONPNRNUNZOMPAPEPFPGPHPKPLPMPNPRPSPTPWPYQARERORSRURW"
    "SASBSCSDSESGSHSISJSKSLSMSNSOSRSSSTSVSXSYSZTCTDTFTGTHTJTKTLTMTNTO"
    "TRTTTVTWTZUAUGUMUSUYUZVAVCVEVGVIVNVUWFWSYEYTZAZMZW"
)
CODES = frozenset(_PACKED[i : i + 2] for i in range(0, len(_PACKED), 2))

_EUROPE = "ATBEBGCHCYCZDEDKEEESFIFRGBGRHRHUIEISITLILTLULVMTNLNOPLPTROSESISK"
EUROPE = frozenset(_EUROPE[i : i + 2] for i in range(0, len(_EUROPE), 2))
"""Countries that price lists for the EU usually cover: its members, its single market's, Switzerland and Great Britain."""

# What people write instead; looked up without case.
_USUAL = {
    **dict.fromkeys(("usa", "united states", "america", "美国"), "US"),
    **dict.fromkeys(("uk", "united kingdom", "britain", "england", "gbr", "英国"), "GB"),
    **dict.fromkeys(("china", "chn", "prc", "中国"), "CN"),
    **dict.fromkeys(("germany", "deu", "deutschland", "德国"), "DE"),
    **dict.fromkeys(("france", "fra", "法国"), "FR"),
    **dict.fromkeys(("japan", "jpn", "日本"), "JP"),
    **dict.fromkeys(("ireland", "irl"), "IE"),
    **dict.fromkeys(("canada", "can"), "CA"),
    **dict.fromkeys(("singapore", "sgp", "新加坡"), "SG"),
    **dict.fromkeys(("hong kong", "hkg", "香港"), "HK"),
    **dict.fromkeys(("netherlands", "nld", "holland"), "NL"),
    **dict.fromkeys(("india", "ind"), "IN"),
    **dict.fromkeys(("korea", "south korea", "kor"), "KR"),
}


def parse_country(value: object) -> str:
    """Read a country code, upper case.

    Raises
    ------
    UnitError
        When it is no ISO 3166-1 code of two letters.
    """
    help_ = "write the two letters of ISO 3166, e.g. US, DE, CN"
    if not isinstance(value, str):
        raise UnitError("must be a country code", help_)
    code = value.strip().upper()
    if code in CODES:
        return code
    if code == "EU":
        raise UnitError("EU is no country: list its countries, e.g. [DE, FR, IE]", help_)
    near = _USUAL.get(value.strip().lower())
    if near is None and len(code) > 2:
        close = get_close_matches(value.strip().lower(), _USUAL, n=1, cutoff=0.8)
        near = _USUAL[close[0]] if close else None
    raise UnitError(f"unknown country {shown(value)}" + (f"; did you mean {near}?" if near else ""), help_)
