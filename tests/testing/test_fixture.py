"""The fixture ``prompt_trace``: the same records on every run, and a failure that says which text is nobody's."""

from __future__ import annotations

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.testing.recorded import PromptTrace
from otel_prompt_trace.testing.steady import steady_sources
from tests.testing.conftest import RunPytest

APP = """
import otel_prompt_trace as pt

def answer(question, rider="", date=""):
    with pt.query(question=question) as q:
        system = pt.declare("system", "Be brief.", trust="policy")
        text = pt.declare("user", question, trust="user")
        with q.call(model="gpt-4o", prompt=f"{date}{system}{rider}{text}") as call:
            call.respond("because", finish_reason="stop")
    return q.qid
"""


def ask(question: str, rider: str = "") -> str:
    """One query with a call; ``rider`` is nobody's."""
    with pt.query(question=question) as q:
        prompt = f"{pt.declare('system', 'Be brief.')}{rider}{pt.declare('user', question, source_id='q1')}"
        with q.call(model="gpt-4o", prompt=prompt) as call:
            call.respond("because")
    return q.qid


class TestRecords:
    """What was recorded, read back."""

    def test_records_and_calls(self, prompt_trace: PromptTrace) -> None:
        """Every query in its order, one by its qid, every call; nothing has to be installed or flushed."""
        assert (prompt_trace.records, prompt_trace.calls) == ([], [])
        first, second = ask("why?"), ask("how?")
        assert [record.qid for record in prompt_trace.records] == [first, second]
        assert prompt_trace.get(first).query == {**(prompt_trace.get(first).query or {}), "question": "why?"}
        assert [call.prompt.segments[0].text for call in prompt_trace.calls if call.prompt] == [
            "Be brief.why?",
            "Be brief.how?",
        ]
        assert prompt_trace.grade(first).verdict == "exact"
        with pytest.raises(pt.PromptTraceError):
            prompt_trace.get("absent")

    def test_a_query_that_is_still_open_is_there(self, prompt_trace: PromptTrace) -> None:
        """What was recorded so far."""
        with pt.query(question="why?") as q, q.call(model="m", prompt="why?"):
            assert [call.unfinished for call in prompt_trace.get(q.qid).calls] == [True]

    @pytest.mark.parametrize("turn", range(2))
    def test_ids_and_times_are_the_same_on_every_run(self, prompt_trace: PromptTrace, turn: int) -> None:
        """Also when something is delivered in between, at whatever moment."""
        qid = ask("why?")
        pt.flush(5)
        other = ask("how?")
        assert (qid, other) == ("01KDWPVNG00000000000000002", "01KDWPVNG00000000000000004")
        times = [event["ts"][11:23] for event in prompt_trace.get(other).events]
        assert [event["ts"][:11] for event in prompt_trace.get(qid).events] == ["2026-01-01T"] * 6
        assert times == sorted(times)
        assert times[0] == "12:00:00.007"

    def test_what_the_application_installs_is_seen(self, prompt_trace: PromptTrace) -> None:
        """With its own settings, and the same ids."""
        pt.install(store="s3://bucket/p", policy="hash")
        qid = ask("a secret question")
        (call,) = prompt_trace.get(qid).calls
        assert call.prompt is not None
        assert call.prompt.segments[0].cuts
        assert qid.startswith("01KDWPVNG00000")
        prompt_trace.assert_accounted()


class TestAccounted:
    """An assertion that names the gap."""

    def test_all_is_accounted_for(self, prompt_trace: PromptTrace) -> None:
        """Nothing to say."""
        qid = ask("why?")
        prompt_trace.assert_accounted()
        prompt_trace.assert_accounted(qid)

    def test_a_gap_is_named(self, prompt_trace: PromptTrace) -> None:
        """Path, offsets, an excerpt, and the pieces on both sides."""
        qid = ask("why?", rider="Today is Monday.\x1b[31m")
        with pytest.raises(AssertionError) as failed:
            prompt_trace.assert_accounted()
        assert str(failed.value).splitlines() == [
            f"21 of 34 characters are unaccounted for in call 1 of 'gpt-4o', query {qid}:",
            "  prompt[9:30]  21 characters: 'Today is Monday.\\x1b[31m'",
            "      after system [0:9], before user:q1 [30:34]",
        ]

    def test_a_long_prompt_is_not_printed_whole(self, prompt_trace: PromptTrace) -> None:
        """The beginning and the end of a gap, the first gaps of many."""
        text = "".join(f"{n:04}|" for n in range(2000))
        with pt.query() as q:
            pieces = "".join(pt.declare("p", f"<{n}>", source_id=str(n)) + text for n in range(8))
            with q.call(prompt=pieces):
                pass
        with pytest.raises(AssertionError) as failed:
            prompt_trace.assert_accounted(q.qid)
        assert len(str(failed.value)) < 1500
        assert "and 3 more" in str(failed.value)
        assert "'0000|0001|0002|0003|0004|0005|' … '1994|1995|1996|1997|1998|1999|'" in str(failed.value)

    def test_a_piece_that_is_not_there_is_named_beside_the_gap(self, prompt_trace: PromptTrace) -> None:
        """It is often the cause."""
        with pt.query() as q:
            pt.declare("system", "Be  brief.")
            with q.call(prompt="Be brief."):
                pass
        with pytest.raises(AssertionError, match=r"unlocatable: system, 10 characters"):
            prompt_trace.assert_accounted()

    def test_one_producer_of_everything_accounts_for_nothing(self, prompt_trace: PromptTrace) -> None:
        """Renaming the whole prompt is no way round."""
        with pt.query() as q, q.call(prompt=pt.Prompt().add("everything", "Be brief. Why?")):
            pass
        with pytest.raises(AssertionError, match=r"14 of 14 characters(?s:.*)whole prompt: everything"):
            prompt_trace.assert_accounted()

    def test_no_call_is_no_success(self, prompt_trace: PromptTrace) -> None:
        """An assertion that had nothing to look at fails."""
        with pytest.raises(AssertionError, match="no call was recorded"):
            prompt_trace.assert_accounted()
        with pt.query() as q:
            pass
        with pytest.raises(AssertionError, match="no call was recorded"):
            prompt_trace.assert_accounted(q.qid)


def test_a_call_without_a_prompt_is_named() -> None:
    """Its response alone is known."""
    from otel_prompt_trace.testing.accounted import unaccounted
    from tests.core.by_hand import Script

    script = Script()
    script("response", call="c1", output="Ten.")
    assert unaccounted([script.record()]) == [f"No prompt was recorded of call 1, query {script.qid}."]


def test_steady_ids_do_not_depend_on_the_clock() -> None:
    """Looking at the time moves nothing; reading it moves it on by a millisecond."""
    one, other = steady_sources(), steady_sources()
    assert one.now() == one.now()
    one.now_ns()
    assert (one.now_ns() - other.now_ns(), one.new_id()) == (1_000_000, other.new_id())
    assert one.random_bits(60) == other.random_bits(60)


class TestEachTest:
    """The marker and the ini option: no test has to say it."""

    TESTS = """
import pytest, unittest
from app import answer

def test_accounted():
    answer("why?")

def test_gap():
    answer("why?", rider="Today is Monday.")

@pytest.mark.prompt_trace_accounted(False)
def test_opted_out():
    answer("why?", rider="Today is Monday.")

def test_no_call():
    pass

@pytest.mark.xfail(strict=True)
def test_expected():
    answer("why?", rider="Today is Monday.")

def test_fails_by_itself():
    answer("why?", rider="Today is Monday.")
    assert 1 == 2

class TestOld(unittest.TestCase):
    def test_gap(self):
        answer("why?", rider="Today is Monday.")

    def test_accounted(self):
        answer("why?")
"""

    def test_by_ini(self, run_pytest: RunPytest) -> None:
        """A failure of the test, with the gap and without a traceback through ours."""
        result = run_pytest(ini="prompt_trace_accounted = true", app=APP, test_it=self.TESTS)
        result.assert_outcomes(passed=4, failed=3, xfailed=1)
        result.stdout.fnmatch_lines(
            [
                "*_ test_gap _*",
                "16 of 29 characters are unaccounted for in call 1 of 'gpt-4o', query *",
                "  prompt[[]9:25[]]  16 characters: 'Today is Monday.'",
                "      after system [[]0:9[]], before user [[]25:29[]]",
                "*assert 1 == 2*",
                "*_ TestOld.test_gap _*",
            ]
        )
        result.stdout.no_fnmatch_line("*pytest_plugin.py*")

    def test_by_marker(self, run_pytest: RunPytest) -> None:
        """On the tests that carry it, functions and classes alike; without it nothing is asserted."""
        run_pytest(app=APP, test_it=self.TESTS).assert_outcomes(passed=6, failed=2)  # one failed as expected before
        marked = self.TESTS + "\npytestmark = pytest.mark.prompt_trace_accounted\n"
        run_pytest(app=APP, test_it=marked).assert_outcomes(passed=4, failed=3, xfailed=1)

    def test_switched_off_is_said(self, run_pytest: RunPytest, monkeypatch: pytest.MonkeyPatch) -> None:
        """An assertion that could never fail is an error."""
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        result = run_pytest(app=APP, test_it="def test_it(prompt_trace):\n    pass\n")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*nothing is recorded: PROMPT_TRACE_ENABLED=false or OTEL_SDK_DISABLED=true*"])


def test_unittest_style_tests_get_it_by_a_fixture_of_their_own(run_pytest: RunPytest) -> None:
    """As any fixture."""
    test = """
import pytest, unittest
from app import answer

class TestOld(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def recorded(self, prompt_trace):
        self.prompt_trace = prompt_trace

    def test_it(self):
        qid = answer("why?")
        self.assertEqual([r.qid for r in self.prompt_trace.records], [qid])
        self.prompt_trace.assert_accounted()
"""
    run_pytest(app=APP, test_it=test).assert_outcomes(passed=1)


def test_an_application_that_is_installed_for_the_whole_run(run_pytest: RunPytest) -> None:
    """It goes on with its own settings and provider, with an empty store and the same ids in each test."""
    conftest = """
import otel_prompt_trace as pt
pt.install(store="s3://bucket/p", policy="hash")
"""
    test = """
import pytest
import otel_prompt_trace as pt
from otel_prompt_trace.current import current
from app import answer

RUNTIME = current()

@pytest.mark.parametrize("turn", range(2))
def test_it(prompt_trace, turn):
    qid = answer("why?")
    assert qid.startswith("01KDWPVNG00000")
    assert [record.qid for record in prompt_trace.records] == [qid]
    assert prompt_trace.calls[0].prompt.segments[0].cuts

def test_installed_still():
    assert current() is RUNTIME
    assert RUNTIME.settings.policy == "hash"
"""
    run_pytest(conftest=conftest, app=APP, test_it=test).assert_outcomes(passed=3)


def test_the_fixture_and_a_real_store_are_a_contradiction(run_pytest: RunPytest) -> None:
    """Said in a sentence."""
    test = "import pytest\n@pytest.mark.prompt_trace_store\ndef test_it(prompt_trace):\n    pass\n"
    result = run_pytest(test_it=test)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the marker prompt_trace_store asks for another store than that of prompt_trace*"])
