"""What each function of each client program is answered by the host, and what the record must say of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.wire import replies as say
from tests.wire.model_host import Answer
from tests.wire.replies import TEXT, WORDS, cut, endless, failing, gated, html, sliced, zipped


@dataclass(frozen=True)
class Scenario:
    """One function of a program.

    ``calls`` are the statuses of each call's attempts, 0 where no status arrived; by default all requests are attempts
    of one call. ``output`` is the text that the application was given by the last call, None where it was given none.
    """

    name: str
    answers: tuple[Answer, ...]
    output: str | None = TEXT
    finish: str | None = "stop"
    unfinished: bool = False
    calls: tuple[tuple[int, ...], ...] = ()
    elsewhere: bool = False  # the calls are of no entry: the application lost the context itself
    http2: bool = False

    @property
    def expected(self) -> list[tuple[int, ...]]:
        """The statuses of each call's attempts."""
        whole = tuple(0 if one.silent or one.cut_request_after is not None else one.status for one in self.answers)
        return list(self.calls) or [whole]


NONE: tuple[tuple[int, ...], ...] = ((),)  # no call at all


def _one(name: str, answer: Answer, **more: object) -> Scenario:
    return Scenario(name, (answer,), **more)  # type: ignore[arg-type]


def _each(names: str, answer: Answer, **more: object) -> Iterable[Scenario]:
    return [_one(name, answer, **more) for name in names.split()]


def _error(names: str, *answers: Answer) -> Iterable[Scenario]:
    return [Scenario(name, answers, None, None) for name in names.split()]


SILENT = Answer(silent=True)
CUT = Answer(cut_request_after=70_000)
MOVED = Answer(status=307, headers=(("Location", "/v1/elsewhere/chat/completions"),))
SHOP = Answer((b'{"order": 7}',))
_FAILED = {"output": None, "finish": None}
_BROKEN = {"finish": None, "unfinished": True}
_TRIES = (failing(429), failing(429))
_FOUR = ((200,), (200,), (200,), (200,))
_TWO_WORDS = "".join(WORDS[:2])

_BY_HAND = [
    *_each("json_body bytes_as_they_are generator_body file_body hooks", say.chat()),
    *_each("zipped_answer zipped_raw", zipped(say.chat())),
    Scenario("redirected", (MOVED, say.chat()), calls=((307, 200),)),
    Scenario("not_a_model", (SHOP, SHOP), None, None, calls=NONE),
    *_each("stream_lines", sliced(say.chat_stream(), 61)),
    *_error("refused", failing(400)),
    *_error("timed_out", SILENT),
    *_error("cut_in_mid_request", CUT),
    _one("stream_cut", gated(cut(say.chat_stream(), 3)), output=_TWO_WORDS, **_BROKEN),
    _one("stream_left", gated(say.chat_stream()), output=_TWO_WORDS, **_BROKEN),
    _one("stream_collected", gated(say.chat_stream()), output=WORDS[0], **_BROKEN),
]


def _by_hand(*without: str) -> list[Scenario]:
    return [scenario for scenario in _BY_HAND if scenario.name not in without]


HTTPX = [
    *_by_hand(),
    *_each("sent_by_hand async_sent_by_hand subclass async_json async_generator_body", say.chat()),
    *_each("attributes read_in_another_thread", say.chat()),
    Scenario("redirected_generator", (MOVED, SILENT), None, None, unfinished=True, calls=((0,),)),
    Scenario("redirect_not_followed", (MOVED,), None, None),
    Scenario("own_auth", (failing(401), say.chat())),
    _one("uploaded", say.chat(), output=None, finish=None, calls=NONE),
    _one("zipped_stream", zipped(say.chat_stream())),
    _one("large_answer", say.chat("large " * 2_000_000), output="large " * 2_000_000),
    Scenario("interleaved", (say.chat_stream(), say.chat_stream()), calls=((200,), (200,))),
    Scenario("failing_generator_body", (SILENT,), None, None, calls=NONE),
    *_each("stream_raw async_stream", gated(say.chat_stream())),
    *_each("stream_bytes_sized async_stream_lines read_twice", sliced(say.chat_stream(), 61)),
    _one("stream_closed", gated(say.chat_stream()), output=None, **_BROKEN),
    _one("reader_fails", gated(say.chat_stream()), output=None, **_BROKEN),
    *_error("gateway_page", html(502)),
    _one("timed_out_in_mid_stream", endless(say.chat_stream(), 3), output=_TWO_WORDS, **_BROKEN),
    _one("no_json", say.chat(), output=None, finish=None, calls=NONE),
    Scenario("nobody_there", (), None, None, calls=((0,),)),
    Scenario("twice_the_same", (say.chat(), say.chat()), calls=((200,), (200,))),
    Scenario("own_retries", (*_TRIES, say.chat())),
    Scenario("own_transport", (), "me", None, calls=((200,),)),
    _one("anthropic_by_hand", say.messages(), finish="end_turn"),
    Scenario("anthropic_cut_and_again", (cut(say.messages_stream(), 2), say.messages_stream()), finish="end_turn"),
    _one("cohere_by_hand", say.cohere(), finish="COMPLETE"),
    _one("async_stream_left", gated(say.chat_stream()), output=_TWO_WORDS, **_BROKEN),
    _one("async_stream_collected", gated(say.chat_stream()), output=WORDS[0], **_BROKEN),
    _one("async_stream_cut", gated(cut(say.chat_stream(), 3)), output=_TWO_WORDS, **_BROKEN),
    *_error("async_cancelled", SILENT),
    _one("async_cancelled_in_mid_stream", endless(say.chat_stream(), 3), output=_TWO_WORDS, **_BROKEN),
    Scenario("gathered", (say.chat(),) * 4, calls=_FOUR),
    Scenario("gathered_the_same", (say.chat(),) * 4, calls=_FOUR),
]
REQUESTS = [
    *_by_hand(),
    *_each("text_body urllib3_json", say.chat()),
    *_each("stream_content urllib3_stream", gated(say.chat_stream())),
    *_each("stream_sized stream_raw_read stream_raw_lines", sliced(say.chat_stream(), 61)),
    _one("stream_unread", gated(say.chat_stream()), output=None, **_BROKEN),
    *_error("gateway_page", html(502)),
    Scenario("twice_the_same", (say.chat(), say.chat()), calls=((200,), (200,))),
    Scenario("retried_by_adapter", (*_TRIES, say.chat())),
    Scenario("urllib3_retried", (*_TRIES, say.chat())),
]
AIOHTTP = [
    *_by_hand("file_body", "hooks", "zipped_raw", "refused", "redirected"),
    Scenario("redirected", (MOVED, say.chat()), calls=((200,),)),  # it is told of as one request
    _one("refused", failing(400), output=None, **_BROKEN),  # the session raises before anybody reads
    *_each("awaited traced", say.chat()),
    *_each("stream_any stream_chunks", gated(say.chat_stream())),
    *_each("stream_sized", sliced(say.chat_stream(), 61)),
    _one("stream_released", gated(say.chat_stream()), output=None, **_BROKEN),
    Scenario("gathered", (say.chat(),) * 4, calls=_FOUR),
]
OPENAI = [
    *_each("chat raw_response streaming_response async_chat aiohttp_chat", say.chat()),
    _one("chat_zipped", zipped(say.chat())),
    _one("completion", say.completion()),
    _one("response", say.response(), finish="completed"),
    *_each("response_stream response_stream_helper async_response_stream", say.response_stream(), finish="completed"),
    *_each("chat_stream async_chat_stream aiohttp_chat_stream", gated(say.chat_stream())),
    _one("chat_stream_sliced", sliced(say.chat_stream(), 13)),
    *_each("chat_stream_helper raw_response_stream streaming_response_lines", say.chat_stream()),
    *_each(
        "chat_stream_left async_chat_stream_left aiohttp_chat_stream_left",
        gated(say.chat_stream()),
        output=_TWO_WORDS,
        **_BROKEN,
    ),
    *_each(
        "chat_stream_closed chat_stream_collected async_chat_stream_collected",
        gated(say.chat_stream()),
        output=WORDS[0],
        **_BROKEN,
    ),
    *_each("chat_stream_cut async_chat_stream_cut", gated(cut(say.chat_stream(), 3)), output=_TWO_WORDS, **_BROKEN),
    _one("streaming_response_unread", gated(say.chat()), output=None, **_BROKEN),
    *[Scenario(name, (*_TRIES, say.chat())) for name in ("retried", "async_retried", "aiohttp_retried")],
    Scenario("retried_stream", (*_TRIES, say.chat_stream())),
    *_error("retried_in_vain", *_TRIES),
    *_error("refused refused_stream", failing(400)),
    *_error("gateway_page", html(502)),
    *_error("page_instead_of_json", html(200)),
    *_error("timed_out async_timed_out", SILENT),
    *_error("cut_in_mid_request", CUT),
    Scenario("twice_the_same", (say.chat(), say.chat()), calls=((200,), (200,))),
    *[
        Scenario(name, (say.chat_stream(), say.chat_stream()), calls=((200,), (200,)))
        for name in ("twice_the_same_stream", "async_twice_the_same_stream")
    ],
    Scenario("stream_cut_and_again", (cut(say.chat_stream(), 3), say.chat_stream())),
    Scenario("end_mark_in_the_text_and_again", (cut(say.chat_stream(say.MARKS), 3), say.chat_stream())),
    Scenario("async_gathered", (say.chat(),) * 4, calls=_FOUR),
    Scenario("in_threads", (say.chat(),) * 4, calls=_FOUR, elsewhere=True),
    Scenario("over_http2", (say.chat(), say.chat_stream()), calls=((200,), (200,)), http2=True),
    Scenario("async_over_http2", (say.chat(),) * 6, calls=((200,),) * 6, http2=True),
]
ANTHROPIC = [
    *_each("message raw_response streaming_response async_message", say.messages(), finish="end_turn"),
    _one("message_stream", gated(say.messages_stream()), finish="end_turn"),
    *_each("stream_helper async_stream_helper", say.messages_stream(), finish="end_turn"),
    *_each("stream_helper_left async_stream_helper_left", gated(say.messages_stream()), output=_TWO_WORDS, **_BROKEN),
    _one("stream_collected", gated(say.messages_stream()), output=WORDS[0], **_BROKEN),
    _one("stream_cut", cut(say.messages_stream(), 5), output=_TWO_WORDS, **_BROKEN),
    _one("stream_overloaded", say.overloaded(), output=WORDS[0], finish=None, unfinished=True),
    Scenario(
        "twice_the_same_stream",
        (say.messages_stream(), say.messages_stream()),
        finish="end_turn",
        calls=((200,), (200,)),
    ),
    Scenario("retried", (*_TRIES, say.messages()), finish="end_turn"),
    *_error("refused", failing(400)),
    *_error("timed_out", SILENT),
]
BEDROCK = [
    _one("converse", say.conversed(), finish="end_turn"),
    _one("converse_stream", say.conversed_stream(), finish="end_turn"),
    _one("converse_stream_left", gated(say.conversed_stream()), output=_TWO_WORDS, **_BROKEN),
    _one("converse_stream_collected", gated(say.conversed_stream()), output=WORDS[0], **_BROKEN),
    _one("converse_stream_throttled", say.throttled_stream(), output=_TWO_WORDS, **_BROKEN),
    _one("converse_stream_cut", cut(say.conversed_stream(), 3), output=_TWO_WORDS, **_BROKEN),
    *_each("invoke invoke_lines", say.messages(), finish="end_turn"),
    _one("invoke_unread", gated(say.messages()), output=None, **_BROKEN),
    _one("invoke_stream", say.invoked_stream(), finish="end_turn"),
    Scenario("retried", (*_TRIES, say.conversed()), finish="end_turn"),
    *_error("refused", failing(400, {"message": "not so"})),
    *_error("timed_out", SILENT),
]
GOOGLE = [
    *_each("generate async_generate", say.generated(), finish="STOP"),
    *_each("generate_stream async_generate_stream", say.generated_stream(), finish="STOP"),
    *_each(
        "generate_stream_left async_generate_stream_left",
        gated(say.generated_stream()),
        output=_TWO_WORDS,
        **_BROKEN,
    ),
    *_error("refused", failing(400, {"error": {"code": 400, "message": "not so", "status": "INVALID_ARGUMENT"}})),
    *_error("timed_out", SILENT),
]
OLLAMA = [
    *_each("chat async_chat", say.ollama()),
    _one("chat_stream", gated(say.ollama_stream())),
    _one("async_chat_stream", say.ollama_stream()),
    _one("chat_stream_left", gated(say.ollama_stream()), output=_TWO_WORDS, **_BROKEN),
    *_error("refused", failing(400, {"error": "not so"})),
]
LITELLM = [
    *_each("openai_chat async_openai_chat", say.chat()),
    _one("openai_chat_stream", say.chat_stream()),
    *_each("anthropic_chat async_anthropic_chat", say.messages(), finish="end_turn"),
    *_each("anthropic_chat_stream async_anthropic_chat_stream", say.messages_stream(), finish="end_turn"),
    *_error("refused", failing(400)),
]


@dataclass(frozen=True)
class Program:
    """A client program: its file, the library that it is told to use, and its functions."""

    file: str
    scenarios: list[Scenario]
    library: str = ""
    last: bool = False  # whether ours is installed after the client library was imported

    @property
    def name(self) -> str:
        """What the tests call it."""
        return self.library or self.file.partition("_")[2]


PROGRAMS = [
    Program("plain_httpx", HTTPX, "httpx", last=True),
    Program("plain_httpx", HTTPX, "httpx2"),
    Program("plain_requests", REQUESTS),
    Program("plain_aiohttp", AIOHTTP, last=True),
    Program("with_openai", OPENAI),
    Program("with_anthropic", ANTHROPIC, last=True),
    Program("with_bedrock", BEDROCK),
    Program("with_google", GOOGLE, last=True),
    Program("with_ollama", OLLAMA),
    Program("with_litellm", LITELLM),
]
