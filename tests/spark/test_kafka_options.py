"""Options of the Kafka input, where no broker is needed; `tests/lakehouse/test_kafka_source.py` has one."""

import re

import pytest

from documents import ROOT
from towpath.spark.kafka import options
from towpath.spark.kafka.client import Cluster
from towpath.spark.kafka.client_options import client_settings
from towpath.spark.kafka.fetch import Fetcher
from towpath.spark.kafka.offsets import Range, TopicPartition, limited, split
from towpath.spark.kafka.options import is_kafka, parse_kafka_options

BROKER = {"kafka.bootstrap.servers": "b:9092"}


def jaas(login, text):
    return {"sasl.jaas.config": f"org.apache.kafka.common.security.{login} required\n {text};"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"security.protocol": "SSL", "client.id": "a"}, {"security.protocol": "SSL", "client.id": "a"}),
        ({"fetch.max.wait.ms": "5"}, {"fetch.wait.max.ms": "5"}),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca"}, {"ssl.ca.location": "/ca"}),
        ({"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/k.p12"}, {"ssl.keystore.location": "/k.p12"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        (
            jaas("plain.PlainLoginModule", r'username="a b" password="c\"d;="'),
            {"sasl.username": "a b", "sasl.password": 'c"d;='},
        ),
        (
            jaas("scram.ScramLoginModule", "username=a password='b\"'"),
            {"sasl.username": "a", "sasl.password": 'b"'},
        ),
        (
            {
                **jaas("oauthbearer.OAuthBearerLoginModule", 'clientId="a" clientSecret="b" scope="c"'),
                "sasl.oauthbearer.token.endpoint.url": "https://login/token",
            },
            {
                "sasl.oauthbearer.client.id": "a",
                "sasl.oauthbearer.client.secret": "b",
                "sasl.oauthbearer.scope": "c",
                "sasl.oauthbearer.token.endpoint.url": "https://login/token",
                "sasl.oauthbearer.method": "oidc",
            },
        ),
        (
            {"sasl.password": "own", **jaas("plain.PlainLoginModule", 'username="a" password="b"')},
            {"sasl.username": "a", "sasl.password": "own"},
        ),
    ],
    ids=str,
)
def test_javas_settings_are_translated(given, wanted):
    assert client_settings(given) == wanted


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"kafka.ssl.truststore.location": "/a/trust.JKS"},
            r"kafka\.ssl\.truststore\.location .*kafka\.ssl\.ca\.location",
        ),
        ({"kafka.ssl.truststore.type": "JKS"}, r"kafka\.ssl\.truststore\.type: .JKS. is not supported, only PEM"),
        ({"kafka.auto.offset.reset": "latest"}, r"kafka\.auto\.offset\.reset .*startingOffsets"),
        ({"kafka.key.deserializer": "x"}, r"kafka\.key\.deserializer .*keys are binary"),
        ({"kafka.sasl.login.callback.handler.class": "aws"}, r"callback\.handler\.class .*Java class"),
        ({"kafka.sasl.jaas.config": "com.sun.Krb5LoginModule required;"}, r"sasl\.jaas\.config .*PlainLoginModule"),
        ({"assign": '{"t": [0]}'}, r"one of the options subscribe, subscribePattern and assign"),
        ({"startingOffsets": "first"}, r"option startingOffsets: .first. is not a JSON object"),
        ({"startingOffsets": '{"t": 1}'}, r"option startingOffsets: .* is not JSON such as"),
        ({"endingOffsets": "earliest"}, r"option endingOffsets: .earliest. is not"),
        ({"maxOffsetsPerTrigger": "0"}, r"option maxOffsetsPerTrigger: .0. is not a positive integer"),
        (
            {"minOffsetsPerTrigger": "5"},
            r"unknown option .minOffsetsPerTrigger.; did you mean maxOffsetsPerTrigger\? expected one of dialect, ",
        ),
        ({"keep": "_file"}, r"option keep: ._file. is not of key, topic, partition, offset"),
        ({"layout": "messages", "schema": "id int"}, r"option schema: not supported with layout messages"),
        ({"path": "a.jsonl"}, r"unknown option .path."),
    ],
    ids=str,
)
def test_wrong_options_are_named(given, said):
    with pytest.raises(ValueError, match=said):
        parse_kafka_options({**BROKER, "subscribe": "t", **given})


def test_errors_do_not_repeat_secrets():
    with pytest.raises(ValueError, match=r"sasl\.jaas\.config") as refused:
        client_settings({"sasl.jaas.config": 'a.PlainLoginModule required username="u" password="secret" other="x";'})
    assert "secret" not in str(refused.value)
    with pytest.raises(ValueError, match=r"only username, password are supported") as refused:
        client_settings({"sasl.jaas.config": 'a.PlainLoginModule required username="u" password="a" secret="b";'})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, "/tmp/x.so")
            for name in [
                "plugin.library.paths",
                "Plugin.Library.Paths",
                "ssl.engine.location",
                "ssl.engine.id",
                "ssl.providers",
                "ssl.engine.factory.class",
                "security.providers",
                "sasl.kerberos.kinit.cmd",
                "sasl.oauthbearer.config",
                "sasl.oauthbearer.assertion.file",
                "sasl.oauthbearer.assertion.jwt.template.file",
                "sasl.oauthbearer.assertion.private.key.file",
                "interceptor.classes",
                "metric.reporters",
                "error_cb",
                "debug",
            ]
        ),
        ("sasl.kerberos.principal", 'a"; id > /tmp/x; "'),
        ("sasl.kerberos.keytab", "$(id)"),
    ],
)
def test_what_would_load_or_run_something_is_refused(name, value):
    with pytest.raises(ValueError, match=rf"option kafka\.{name} is not supported"):
        client_settings({name: value})


@pytest.mark.parametrize("client", [Cluster, Fetcher])
def test_what_the_client_does_not_know_is_refused(client):
    pytest.importorskip("confluent_kafka", reason="Confluent's client is not installed")
    settings = parse_kafka_options({**BROKER, "subscribe": "t", "kafka.no.such.setting": "1"})
    with pytest.raises(ValueError, match=r'options kafka.*No such configuration property: "no\.such\.setting"'):
        client(settings)


def test_names_of_kerberos_are_possible():
    given = {"sasl.kerberos.principal": "kafka/host-1@REALM.ORG", "sasl.kerberos.keytab": "/etc/keytab"}
    assert client_settings(given) == given


def test_brokers_are_required():
    with pytest.raises(ValueError, match=r"option kafka\.bootstrap\.servers is missing"):
        parse_kafka_options({"subscribe": "t"})


def test_files_have_none_of_kafkas_options():
    assert not is_kafka({"path": "a", "dialect": "canal-json", "schema": "id int"})
    assert is_kafka({"Kafka.Bootstrap.Servers": "b:9092"})
    assert is_kafka({"SUBSCRIBE": "t"})


def at(*offsets):
    return {TopicPartition("t", number): offset for number, offset in enumerate(offsets)}


@pytest.mark.parametrize(
    ("start", "end", "most", "wanted"),
    [
        (at(0, 0), at(10, 30), None, at(10, 30)),
        (at(0, 0), at(10, 30), 40, at(10, 30)),
        (at(0, 0), at(10, 30), 20, at(5, 15)),
        (at(5, 5), at(5, 1005), 10, at(5, 15)),
        (at(0, 0), at(1, 1_000_000), 10, at(1, 9)),  # a small partition does not wait for a large one
        (at(8, 0), at(3, 10), 5, at(3, 5)),  # a topic that was created again
    ],
)
def test_the_limit_is_divided_by_backlog(start, end, most, wanted):
    assert limited(start, end, most) == wanted


@pytest.mark.parametrize(
    ("at_least", "sizes"), [(None, [100, 10]), (2, [100, 10]), (11, [10] * 11), (4, [25] * 4 + [10])]
)
def test_long_ranges_are_cut(at_least, sizes):
    ranges = [Range(TopicPartition("t", 0), 5, 105), Range(TopicPartition("t", 1), 0, 10)]
    parts = split(ranges, at_least)
    assert [part.end - part.start for part in parts] == sizes
    assert [part.start for part in parts if part.partition.number == 0][1:] == [
        part.end for part in parts if part.partition.number == 0
    ][:-1]


def test_every_option_is_on_the_page():
    page = (ROOT / "docs" / "spark" / "kafka.md").read_text().partition("## Options")[2]
    named = re.findall(r"`([\w.]+)`", "".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)))
    selection = {"subscribe", "subscribePattern", "assign"}
    assert set(named) | selection == {*options._KAFKA_PARSERS, "kafka.bootstrap.servers", "keep", "layout"}
    assert all(f"`{name}`" in page for name in (*selection, *(set(options.COLUMNS) - {"value"})))
