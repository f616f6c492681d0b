"""Keys, tenants and their file: who is let in, what is refused, and what is never said."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from typer.testing import CliRunner

from agentix.cli import app as cli
from agentix.core import ConfigError
from agentix.gateway.errors import HTTPError
from agentix.gateway.identity import engine_session, scoped, split_scoped
from agentix.gateway.tenants import Budget, Tenant, Tenants, key_digest, presented_keys
from agentix.gateway.tenants_file import load_tenants, reread_tenants

SECRET = "s" * 32
KEYS = {name: f"agx-{name}" + "0123456789" * 4 for name in ("a", "b", "c")}
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,8}", fullmatch=True)
ids = st.text(min_size=1, max_size=8).filter(str.isprintable)


def tenant(name: str, *keys: str, **settings: Any) -> Tenant:
    return Tenant(name=name, key_digests=tuple(map(key_digest, keys or (KEYS[name],))), **settings)


def test_a_key_finds_its_tenant_and_nothing_else_does() -> None:
    tenants = Tenants((tenant("a"), tenant("b", KEYS["b"], KEYS["c"])))
    found = [tenants.find(KEYS[name]) for name in "abc"]
    assert [t and t.name for t in found] == ["a", "b", "b"]
    for wrong in ("", "agx-", KEYS["a"][:-1], KEYS["a"] + "0", KEYS["a"].upper(), "\ud800" * 40, key_digest(KEYS["a"]).hex()):
        assert tenants.find(wrong) is None
    assert (tenants.is_open, Tenants().is_open) == (False, True)


def test_a_short_key_never_matches() -> None:
    assert Tenants((tenant("a", "x" * 31),)).find("x" * 31) is None
    assert Tenants((tenant("a", "x" * 32),)).find("x" * 32) is not None


@pytest.mark.parametrize("key", [KEYS["a"], KEYS["c"], "wrong" * 8])
def test_every_key_is_compared_with_every_other_in_constant_time(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared, real = [], hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    Tenants((tenant("a"), tenant("b"), tenant("c"))).find(key)
    assert compared == [(key_digest(key), key_digest(KEYS[name])) for name in "abc"]


def test_keys_are_read_where_sdks_put_them() -> None:
    for headers, expected in (
        ({"Authorization": "Bearer k"}, ["k"]),
        ({"authorization": "bearer  k "}, ["k"]),
        ({"authorization": "Basic k"}, []),
        ({"X-Api-Key": "k"}, ["k"]),
        ({"authorization": "Bearer k", "x-api-key": "l"}, ["k", "l"]),
        ({}, []),
    ):
        assert presented_keys(Headers(headers)) == expected


def test_neither_keys_nor_secrets_are_shown() -> None:
    tenants = Tenants((tenant("a"),), SECRET)
    for text in (repr(tenants), repr(tenants.all), str(tenants.all)):
        assert SECRET not in text
        assert key_digest(KEYS["a"]).hex() not in text
        assert repr(key_digest(KEYS["a"]))[2:-1] not in text


def test_cache_salts_differ_by_tenant_group_and_client_and_stay_the_same() -> None:
    tenants = (tenant("a"), tenant("b", cache_group="a"), tenant("c", cache_group="a"))
    t, again, other = Tenants(tenants, SECRET), Tenants(tenants, SECRET), Tenants(tenants, "t" * 32)
    salts = [t.cache_salt(name, own) for name, own in (("a", None), ("b", None), ("a", "x"), ("a", "y"), ("b", "x"))]
    assert len(set(salts)) == 5
    assert salts[0] == hmac.digest(SECRET.encode(), b"tenant\0a", "sha256").hex()
    assert t.cache_salt("c", "x") == t.cache_salt("b", "x")
    assert again.cache_salt("a", "x") == t.cache_salt("a", "x")
    assert other.cache_salt("a", None) != salts[0]
    assert Tenants(tenants).cache_salt("a", None) != Tenants(tenants).cache_salt("a", None)  # made up for each
    assert t.cache_salt("", "x") is None
    assert all(salt is not None and len(salt) <= 128 and salt.isalnum() for salt in salts)  # what vLLM accepts


@pytest.mark.parametrize("own", ["", 1, [], {}])
def test_a_cache_salt_that_is_no_text_is_refused(own: Any) -> None:
    with pytest.raises(HTTPError, match="cache_salt must be a string"):
        Tenants((tenant("a"),)).cache_salt("a", own)


@given(st.tuples(names, ids), st.tuples(names, ids))
def test_ids_of_two_tenants_never_meet(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert split_scoped(scoped(*one)) == one
    assert (scoped(*one) == scoped(*other)) == (one == other)
    assert (engine_session(scoped(*one)) == engine_session(scoped(*other))) == (one == other)
    assert engine_session(scoped(*one)).isprintable()
    assert scoped("", one[1]) == engine_session(one[1]) == one[1]
    assert split_scoped(one[1]) == ("", one[1])


FILE = """
salt_secret = "{secret}"
[tenant.a]
keys_sha256 = ["{digest}"]
key_env = "KEY_B"
weight = 2
admin = true
cache_group = "g"
budget = {{ calls_per_minute = 10, service_s_per_hour = 1.5 }}
[tenant.b]
key_env = "KEY_C"
[tenant.b.program_budget]
tokens_per_minute = 100
concurrent_calls = 1
soft = 1.0
max_hold_s = 0
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text(FILE.format(secret=SECRET, digest=hashlib.sha256(KEYS["a"].encode()).hexdigest()))
    tenants = load_tenants(path, {"KEY_B": KEYS["b"], "KEY_C": KEYS["c"], "AGENTIX_SALT_SECRET": "t" * 32})
    assert tenants.all == (
        tenant(
            "a",
            KEYS["a"],
            KEYS["b"],
            weight=2,
            admin=True,
            cache_group="g",
            budget=Budget(calls_per_minute=10, service_s_per_hour=1.5),
        ),
        tenant("b", KEYS["c"], program_budget=Budget(tokens_per_minute=100, concurrent_calls=1, soft=1.0, max_hold_s=0)),
    )
    assert tenants.cache_salt("a", None) == Tenants(tenants.all, SECRET).cache_salt("a", None)


def test_one_key_in_the_environment_is_an_admin() -> None:
    tenants = load_tenants(None, {"AGENTIX_API_KEY": KEYS["a"], "AGENTIX_SALT_SECRET": SECRET})
    assert tenants.all == (tenant("default", KEYS["a"], admin=True),)
    assert tenants.cache_salt("default", None) == Tenants(tenants.all, SECRET).cache_salt("default", None)
    assert load_tenants(None, {}).is_open
    with pytest.raises(ConfigError, match="the key in AGENTIX_API_KEY is too short: 5 characters; 32 or more are needed"):
        load_tenants(None, {"AGENTIX_API_KEY": "short"})


def test_a_file_that_has_changed_is_adopted_and_a_broken_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tenants.toml"

    def write(name: str, key: str, more: str = "") -> None:
        path.write_text(f'[tenant.{name}]\nkeys_sha256 = ["{hashlib.sha256(key.encode()).hexdigest()}"]\n{more}')

    write("a", KEYS["a"])
    tenants = load_tenants(path, {})
    salt = tenants.cache_salt("a", None)
    write("a", KEYS["b"], "weight = 2")
    reread_tenants(path, {}, tenants.adopt)
    assert (tenants.find(KEYS["a"]), tenants.find(KEYS["b"])) == (None, tenant("a", KEYS["b"], weight=2))
    assert tenants.cache_salt("a", None) == salt  # that was made up, and stays
    assert f"the tenants were read again from {path}: a" in caplog.text
    for broken in ("[tenant", "", "[tenant.a]\nweight = 3"):
        path.write_text(broken)
        reread_tenants(path, {}, tenants.adopt)
        assert tenants.all == (tenant("a", KEYS["b"], weight=2),)
    path.unlink()
    reread_tenants(path, {}, tenants.adopt)
    assert tenants.all == (tenant("a", KEYS["b"], weight=2),)
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 4
    assert all(error.startswith("the tenants stay as they were: ") for error in errors)
    write("b", KEYS["b"])
    reread_tenants(path, {"AGENTIX_SALT_SECRET": SECRET}, tenants.adopt)
    assert tenants.cache_salt("b", None) == Tenants(tenants.all, SECRET).cache_salt("b", None)
    assert tenants.cache_salt("a", None) not in {None, salt, tenants.cache_salt("b", None)}  # of a call that is still held


def test_a_gateway_that_asks_for_keys_does_not_become_open() -> None:
    tenants = Tenants((tenant("a"),))
    with pytest.raises(ConfigError, match="settled at the start"):
        tenants.adopt(Tenants())
    assert tenants.all == (tenant("a"),)
    with pytest.raises(ConfigError, match="settled at the start"):
        Tenants().adopt(tenants)


def test_names_of_media_are_apart_as_salts_are() -> None:
    tenants = Tenants((tenant("a"), tenant("b", cache_group="g"), tenant("c", cache_group="g")), SECRET)
    assert len({tenants.media_id(name, own) for name in "abc" for own in ("x", "y")}) == 4
    assert tenants.media_id("b", "x") == tenants.media_id("c", "x")
    assert tenants.media_id("a", 5) == tenants.media_id("a", "5")  # vLLM makes a text of it


DIGEST = f'keys_sha256 = ["{"0" * 64}"]'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"there must be a table \[tenant.NAME\]"),
        ("tenant = 3", "there must be a table"),
        ("[tenant]\na = 3", "there must be a table"),
        ("x = ", "is not TOML"),
        ("tenants = 3", "the file: unknown key 'tenants'; known: salt_secret, tenant"),
        ("[tenant.a]", "tenant 'a' has no key: give keys_sha256 or key_env"),
        ("[tenant.a]\nkeys_sha256 = []", "tenant 'a' has no key"),
        ('[tenant.a]\nkeys_sha256 = ["plain"]', "tenant 'a': keys_sha256 must be a list of SHA-256 digests"),
        ('[tenant.a]\nkey_env = "NO"', "tenant 'a': key_env: the environment variable 'NO' is not set"),
        ('[tenant.a]\nkey_env = "SHORT"', "tenant 'a': the key in SHORT is too short: 12 characters"),
        ("[tenant.a]\nkey_env = 3", "tenant 'a': key_env"),
        (f"[tenant.a]\n{DIGEST}\nwieght = 2", "tenant 'a': unknown key 'wieght'; known: keys_sha256, key_env, weight, admin"),
        (f"[tenant.a]\n{DIGEST}\nweight = 0", "tenant 'a': weight must be a number above 0, not 0"),
        (f"[tenant.a]\n{DIGEST}\nweight = nan", "weight must be a number above 0"),
        (f'[tenant.a]\n{DIGEST}\nadmin = "yes"', "admin must be true or false, not 'yes'"),
        (f'[tenant.a]\n{DIGEST}\ncache_group = "a/b"', "tenant 'a': a tenant's name is 1 to 63 letters"),
        (f"[tenant.a]\n{DIGEST}\ncache_group = 1", "cache_group must be a string"),
        (f'[tenant."a/b"]\n{DIGEST}', "a tenant's name is 1 to 63 letters, digits, '_' and '-', not 'a/b'"),
        (f"[tenant.a]\n{DIGEST}\n[tenant.b]\n{DIGEST}", "tenants 'a' and 'b' have the same key"),
        (f"[tenant.a]\n{DIGEST}\nbudget = 3", "budget must be a table"),
        (f"[tenant.a]\n{DIGEST}\nbudget.calls = 3", "tenant 'a': budget: unknown key 'calls'; known: calls_per_minute"),
        (f"[tenant.a]\n{DIGEST}\nbudget.calls_per_minute = 0", "calls_per_minute must be a whole number, 1 or more, not 0"),
        (f"[tenant.a]\n{DIGEST}\nbudget.tokens_per_minute = 1.5", "tokens_per_minute must be a whole number"),
        (f"[tenant.a]\n{DIGEST}\nprogram_budget.concurrent_calls = true", "program_budget: concurrent_calls must be a whole"),
        (f"[tenant.a]\n{DIGEST}\nbudget.service_s_per_hour = -1", "service_s_per_hour must be a number above 0, not -1"),
        (f"[tenant.a]\n{DIGEST}\nbudget.soft = 1.1", "soft must be above 0 and at most 1, not 1.1"),
        (f"[tenant.a]\n{DIGEST}\nbudget.max_hold_s = inf", "max_hold_s must be a number, 0 or more, not inf"),
        (f'salt_secret = "short"\n[tenant.a]\n{DIGEST}', "the salt secret must have 32 characters or more"),
        (f"salt_secret = 3\n[tenant.a]\n{DIGEST}", "salt_secret must be a string"),
    ],
)
def test_a_bad_file_is_refused_by_name(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load_tenants(path, {"SHORT": "too-short-12"})
    assert str(caught.value).startswith(str(path))
    assert "too-short-12" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the tenants file .*none\.toml: No such file"):
        load_tenants(tmp_path / "none.toml", {})


def test_agentix_key_makes_a_key_that_its_lines_let_in(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["key", "acme", "--admin"])
    assert result.exit_code == 0
    made = next(line.strip() for line in result.stderr.splitlines() if "agx-" in line)
    assert made not in result.stdout
    path = tmp_path / "tenants.toml"
    path.write_text(result.stdout)
    tenants = load_tenants(path, {})
    assert [(t.name, t.admin) for t in tenants.all] == [("acme", True)]
    assert tenants.find(made) == tenants.all[0]
    assert made not in CliRunner().invoke(cli, ["key", "acme"]).stderr
    assert isinstance(CliRunner().invoke(cli, ["key", "a/b"]).exception, ConfigError)
