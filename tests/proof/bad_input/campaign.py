"""Campaign `bad-input`: hostile objects, keys, messages, segments, checkpoints and configurations, from a list and
random.

Nothing crashes a batch, nothing is read or written outside its folder, no line of a log or terminal is forged, memory
stays bounded, and every refused record has a dead letter with its reason. Each record of each file is compared, through
`_source`, with an independent reading of the same bytes.
"""

import io
from collections.abc import Mapping, Sequence

from blizzard.storage.local import LocalStore
from spark_job.tasks.fetch import TaskFile
from tests.proof.bad_input import commands, configurations, documents, variants
from tests.proof.bad_input import decoders as decoded
from tests.proof.bad_input.compare import shown
from tests.proof.bad_input.corpus import CONTAINERS, GOOD, KEYS, LINES, NO_KEYS, TEXTS, VALUES, Hostile
from tests.proof.bad_input.job import REAL_JOB, check_real_job
from tests.proof.bad_input.memory import check_documents, check_memory
from tests.proof.bad_input.places import check_events, tree
from tests.proof.bad_input.random_input import RandomInput
from tests.proof.bad_input.reader import Found, read_entries
from tests.proof.bad_input.round import batch, place
from tests.proof.bad_input.spark import Undecided
from tests.proof.bad_input.stores import CANARY, check_store, linked
from tests.proof.bad_input.variants import VARIANTS, Surroundings
from tests.proof.campaign import Failed, Fault, Run
from tests.proof.spark_session import session


class BadInput:
    name = "bad-input"
    about = "hostile objects, keys, messages, segments, checkpoints and configurations, by name and by chance"
    variants: Mapping[str, Fault] = {name: broken.fault for name, broken in VARIANTS.items()}
    wanted = (REAL_JOB,)

    def run(self, run: Run, *, by_name: bool = True) -> None:
        """The listed input once, then random input; `by_name=False`: random input only. A run that is bounded by time
        also asks Spark about the lines that only Spark may decide, and lets the real job ingest the listed files."""
        broken = VARIANTS.get(run.variant)
        around = broken.around if broken else Surroundings()
        spark = session(run.folder) if run.budget.rounds is None else None
        undecided = Undecided(run, spark)
        for number, rng in run.rounds():
            try:
                if number == 0 and by_name:
                    _Corpus(run, around, undecided).check(broken.shows_at if broken else "")
                    if spark is not None and broken is None:
                        check_real_job(run, run.folder / "real-job", spark)
                RandomInput(run, around, undecided, rng).check()
                if not run.budget.left(number + 1):
                    undecided.decide()
            except Failed as failed:
                what = f"seed {run.seed}, round {number}"
                raise Failed(f"{failed.why} ({what})", failed.steps) from None


CAMPAIGN = BadInput()


class _Corpus:
    """The listed input."""

    def __init__(self, run: Run, around: Surroundings, undecided: Undecided) -> None:
        self._run = run
        self._around = around
        self._undecided = undecided

    def check(self, first: str) -> None:
        """All of the list, beginning with the part that `first` names."""
        parts = {
            variants.CONTAINERS: lambda: self._files("containers", CONTAINERS),
            variants.LINES: lambda: self._files("lines", LINES),
            variants.VALUES: lambda: self._files("values", VALUES),
            variants.TEXTS: lambda: self._files("texts", TEXTS, is_text=True),
            variants.KEYS: self._keys,
            variants.STORE: self._local_store,
            variants.LOG: self._log,
            variants.DOCUMENTS: self._documents,
            variants.CONFIGURATIONS: self._configurations,
            variants.MEMORY: self._memory,
        }
        for what in sorted(parts, key=lambda part: part != first):
            self._run.say(what)
            parts[what]()

    def _files(self, name: str, files: Sequence[Hostile], *, is_text: bool = False) -> None:
        bodies = {hostile.name: hostile.body for hostile in files}
        found = batch(self._run, self._around, name, bodies, is_text=is_text)
        for hostile in files:
            _check_fate(hostile, found)
        self._undecided.add(found)
        self._run.counts["hostile files"] += len(files)

    def _keys(self) -> None:
        """The key must not change the result of the records."""
        files = dict.fromkeys(KEYS, GOOD * 2 + b"broken\n")
        found = batch(self._run, self._around, "keys", files)
        if len(found.rows) != 2 * len(KEYS) or len(found.letters) != len(KEYS):
            raise Failed(
                f"of hostile keys {len(found.rows)} rows, {len(found.letters)} letters; expected two and one each"
            )
        dead = batch(self._run, self._around, "dead-keys", dict.fromkeys(KEYS, b"\xff"))
        if len(dead.letters) != len(KEYS):
            raise Failed(f"{len(dead.letters)} letters for {len(KEYS)} bad files with hostile keys")
        for key in KEYS:
            commands.check_view(key)
        self._run.counts["hostile keys"] += len(KEYS)

    def _local_store(self) -> None:
        """Opened as a source, a store reads nothing outside its root; as a table, it writes nothing there."""
        folder = place(self._run, "store")
        linked(folder / "landing")
        keys = (*KEYS, *NO_KEYS, "link/canary.ndjson", "link.ndjson", "self/a.ndjson", "landing", "../landing/a.ndjson")
        before = tree(folder)
        entries = [TaskFile(key, len(CANARY)) for key in keys if key.isprintable() or key.isascii()]
        found = read_entries(folder / "table", LocalStore(folder / "landing"), entries, self._around.parts)
        if found.rows or found.undecided or not all(outcome.error for outcome in found.outcomes):
            raise Failed(f"entries of hostile keys gave rows from outside of the source: {found.rows[:2]!a:.300}")
        store = self._around.parts.store(folder / "landing")
        for key in keys:
            check_store(store, key)
        after = tree(folder)
        if changed := [name for name in {*before, *after} if before.get(name) != after.get(name)]:
            outside = sorted(name for name in changed if not name.startswith(("landing/", "table/")))
            if outside:
                raise Failed(f"a local store wrote or removed what lies outside of its root: {outside[:5]!a}")
        self._run.counts["hostile keys of a local store"] += len(keys)

    def _log(self) -> None:
        said = io.StringIO()
        texts = [*KEYS, *NO_KEYS, '"}\n{"event": "forged', "\\", "\x00", "x" * 100_000]
        check_events(self._around.parts.log(said), said, texts)
        self._run.counts["hostile texts in the log"] += 2 * len(texts)

    def _documents(self) -> None:
        decoders, counts = self._around.decoders, self._run.counts
        for message in documents.messages():
            found = decoded.check_message(decoders, message.body)
            keys = None if isinstance(found, Exception) else [getattr(event, "key", None) for event in found]
            if keys != ([message.key] if message.key is not None else [None] if message.ignored else None):
                raise Failed(f"a message ({message.name}) gave {found!a:.300}; expected {message.key!a:.80}")
            counts["hostile messages"] += 1
        decoded.check_queue(decoders, [message.body for message in documents.messages()])
        for name, data in documents.segments():
            if decoded.check_segment(decoders, data) is not None:
                raise Failed(f"a segment ({name}) was believed", [shown(data)])
            counts["hostile segments"] += 1
        for name, app_id in documents.app_ids():
            if decoded.check_app_id(app_id) is not None:
                raise Failed(f"an app id ({name}) was taken for a state", [app_id[:100]])
        for name, text in documents.checkpoints():
            if decoded.check_checkpoint(decoders, text) is not None:
                raise Failed(f"a checkpoint ({name}) was believed", [f"{text!a:.300}"])
            commands.check_status(place(self._run, "status"), name, text)
            counts["hostile checkpoints"] += 1

    def _configurations(self) -> None:
        folder = place(self._run, "config")
        decoders = self._around.decoders
        if problems := decoded.check_config(decoders, configurations.CONFIG).problems:
            raise Failed(f"the good configuration is refused: {problems}")
        self._run.counts["hostile configurations"] += decoded.check_objects(decoders, folder)
        for name, text in configurations.configurations():
            if decoded.check_config(decoders, text).config is not None:
                raise Failed(f"a configuration with {name} was taken", [text[:300]])
            if len(text) < 100_000:
                commands.check_validate(folder, name, text)
            self._run.counts["hostile configurations"] += 1

    def _memory(self) -> None:
        folder = place(self._run, "memory")
        for what, peak in {
            "a bomb": check_memory(folder, self._around.parts.limits),
            "a document": check_documents(),
        }.items():
            self._run.counts[f"MiB that {what} took at most"] = max(1, peak >> 20)


def _check_fate(hostile: Hostile, found: Found) -> None:
    """As `corpus` demands."""
    outcome = next(outcome for outcome in found.outcomes if outcome.path == hostile.name)
    rows = sum(row["_source"]["file"] == hostile.name for row in found.rows)
    left = {line["row"] for line in found.undecided if line["file"] == hostile.name}
    letters = {letter.get("row"): letter["error"] for letter in found.letters if letter["path"] == hostile.name}
    if hostile.dead is not None:
        stage, reason = hostile.dead
        if outcome.stage != stage or reason not in letters.get(None, ""):
            raise Failed(f"{hostile.name}: {outcome.stage} {outcome.error!a:.200}; expected {stage} and {reason!r}")
        return
    wrong = {
        row for row, word in (hostile.lines or {}).items() if word is not None and word not in letters.get(row, "-")
    }
    if outcome.error is not None or rows + len(left) + len(letters) != hostile.rows + len(hostile.lines or {}) or wrong:
        became = f"{outcome.error!a:.200}, {rows} rows, letters {letters!a:.300}, lines for Spark {left}"
        raise Failed(f"{hostile.name}: {became}; expected {hostile.rows} rows and {hostile.lines!a:.200}")
