"""Good input with random changes, which the seed of the round decides."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from tests.proof.bad_input import decoders as checks
from tests.proof.bad_input import documents
from tests.proof.bad_input.compare import shown
from tests.proof.bad_input.configurations import CONFIG
from tests.proof.bad_input.corpus import GOOD
from tests.proof.bad_input.mutants import changed_bytes, changed_document, changed_file, packed, smallest, text_of
from tests.proof.bad_input.round import batch
from tests.proof.bad_input.spark import Undecided
from tests.proof.bad_input.variants import Surroundings
from tests.proof.campaign import Failed, Run

FILES_A_ROUND, TEXTS_A_ROUND, DOCUMENTS_A_ROUND, CONFIGS_A_ROUND = 60, 20, 150, 40
RECORDS = (
    {"id": "a", "n": 1, "kind": "x"},
    {"id": "b", "n": -(2**63), "kind": None, "amount": 12.5, "at": "2024-01-28T14:00:00Z"},
    {"id": "\u00e9\U0001f608", "tags": ["a", None], "attributes": {"a": "b"}, "other": {"deep": [1]}},
    {"id": "c", "ratio": 0.5, "flag": True, "day": "2024-01-28", "at": 1706450400, "place": {"name": "x", "x": 7}},
    {"id": ""},
    {"n": 9},
)
_TEXT = "\ufeffa\n\n {[\r\n\u00e9\U0001f608\0\u2028\nlast".encode()


def random_files(rng: random.Random) -> dict[str, bytes]:
    files = {"999.ndjson": GOOD}
    for number in range(FILES_A_ROUND):
        extension, body = random_file(rng)
        files[f"{number:03d}.ndjson{extension}"] = body
    return files


def random_file(rng: random.Random) -> tuple[str, bytes]:
    """The ending of its name, and its content."""
    return changed_file(rng.choices(RECORDS, k=rng.choice((1, 3, 10, 50))), rng)


def random_texts(rng: random.Random) -> dict[str, bytes]:
    files = {"999.txt": GOOD}
    for number in range(TEXTS_A_ROUND):
        extension, body = packed(changed_bytes(_TEXT, rng), rng)
        files[f"{number:03d}.txt{extension}"] = body
    return files


class RandomInput:
    def __init__(self, run: Run, around: Surroundings, undecided: Undecided, rng: random.Random) -> None:
        self._run = run
        self._around = around
        self._undecided = undecided
        self._rng = rng

    def check(self) -> None:
        for what, step in {
            "files by chance": self._files,
            "texts by chance": self._texts,
            "documents by chance": self._documents,
        }.items():
            self._run.say(what)
            step()

    def _files(self) -> None:
        self._batch("files by chance", random_files(self._rng), is_text=False)

    def _texts(self) -> None:
        self._batch("texts by chance", random_texts(self._rng), is_text=True)

    def _batch(self, counted_as: str, files: Mapping[str, bytes], *, is_text: bool) -> None:
        try:
            found = batch(self._run, self._around, "chance", files, is_text=is_text)
        except Failed as failed:
            raise self._smallest_file(files, is_text=is_text) or failed from None
        self._undecided.add(found)
        self._run.counts[counted_as] += len(files)

    def _smallest_file(self, files: Mapping[str, bytes], *, is_text: bool) -> Failed | None:
        for path, body in files.items():
            if self._alone(path, body, is_text=is_text) is not None:
                least = smallest(
                    body, lambda shorter, path=path: self._alone(path, shorter, is_text=is_text) is not None
                )
                if failed := self._alone(path, least, is_text=is_text):
                    return Failed(failed.why, [f"a file {path} of {shown(least)}"])
        return None

    def _alone(self, path: str, body: bytes, *, is_text: bool) -> Failed | None:
        try:
            batch(self._run, self._around, "alone", {path: body, "good.ndjson": GOOD}, is_text=is_text)
        except Failed as failed:
            return failed
        return None

    def _documents(self) -> None:
        decoders, rng = self._around.decoders, self._rng
        bodies = [self._changed(documents.sample(rng.choice(documents.SAMPLES))) for _ in range(DOCUMENTS_A_ROUND)]
        for body in bodies:
            self._check(
                "messages by chance", lambda b: checks.check_message(decoders, b.decode("utf-8", "surrogatepass")), body
            )
        texts = [body.decode("utf-8", "surrogatepass") for body in bodies]
        checks.check_queue(decoders, texts[:20])
        for _ in range(DOCUMENTS_A_ROUND):
            segment, state = self._changed(documents.segment_document()), self._changed(documents.checkpoint_document())
            self._check("segments by chance", lambda b: checks.check_segment(decoders, b), segment)
            self._check("checkpoints by chance", lambda b: checks.check_checkpoint(decoders, b), state)
        for _ in range(CONFIGS_A_ROUND):
            text = changed_bytes(CONFIG.encode(), rng).decode(errors="replace")
            if rng.random() < 0.5:
                text = text_of(rng.choice((text, {"pipelines": text}))) if rng.random() < 0.1 else self._spliced()
            self._check("configurations by chance", lambda b: checks.check_config(decoders, b.decode()), text.encode())

    def _changed(self, document: Any) -> bytes:
        """UTF-8 with lone surrogates, which a queue's client returns as text."""
        body = changed_document(document, self._rng).encode(errors="surrogatepass")
        changed = changed_bytes(body, self._rng) if self._rng.random() < 0.3 else body
        return changed if _decodes(changed) else body

    def _spliced(self) -> str:
        """The configuration with one value replaced by a hostile one in JSON, which is valid YAML."""
        lines = CONFIG.splitlines()
        number = self._rng.randrange(len(lines))
        name, colon, _ = lines[number].partition(":")
        value = changed_document([1, "a", {"b": "c"}], self._rng).replace("\\ud", "\\\\ud")
        return "\n".join([*lines[:number], f"{name}{colon} {value}", *lines[number + 1 :]])

    def _check(self, counted_as: str, check: Callable[[bytes], object], body: bytes) -> None:
        try:
            check(body)
        except Failed as failed:
            least = smallest(body, lambda shorter: _fails(check, shorter))
            raise Failed(failed.why, [f"{counted_as}: {shown(least)}"]) from None
        self._run.counts[counted_as] += 1


def _decodes(body: bytes) -> bool:
    try:
        body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _fails(check: Callable[[bytes], object], body: bytes) -> bool:
    try:
        check(body)
    except Failed:
        return True
    except UnicodeDecodeError:
        return False
    return False
