"""The package conllu reads the same words, comments, multiword tokens and empty nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from riverrun.text.formats import Sentence, read_conllu

conllu = pytest.importorskip("conllu")

TEXT = """# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tvm\tMood=Imp|Number=Plur\t0\troot\t0:root\t_
2\tnos\tnosotros\tPRON\t_\tCase=Acc\t1\tobj\t1:obj\t_
2.1\tnada\tnada\tPRON\t_\t_\t_\t_\t1:dep\tCopyOf=2
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t5:case\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t5:det\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t1:obl\tSpaceAfter=No|X=a,b

# sent_id = 2
1\t_\t_\tPUNCT\t_\t_\t0\troot\t_\t_

"""


def _agrees(ours: Sentence, theirs: conllu.models.TokenList) -> None:
    words = [token for token in theirs if isinstance(token["id"], int)]
    for name in ("form", "lemma", "upos", "deprel"):
        assert ours.column(name) == [token[name] for token in words]
    assert [None if xpos == "_" else xpos for xpos in ours.column("xpos")] == [token["xpos"] for token in words]
    assert [int(head) if head.isdigit() else None for head in ours.column("head")] == [t["head"] for t in words]
    feats = ["|".join(f"{k}={v}" for k, v in (token["feats"] or {"_": ""}).items()) for token in words]
    assert [value if value != "_" else "_=" for value in ours.column("feats")] == feats
    spaces = [(token["misc"] or {}).get("SpaceAfter") != "No" for token in words]
    inside = {k for each in ours.ranges for k in range(each.first - 1, each.last)}  # there the range says it
    assert [s for k, s in enumerate(ours.space_after) if k not in inside] == [
        s for k, s in enumerate(spaces) if k not in inside
    ]
    ranges = [(t["id"][0], t["id"][2], t["form"]) for t in theirs if isinstance(t["id"], tuple) and t["id"][1] == "-"]
    assert [(each.first, each.last, each.form) for each in ours.ranges] == ranges
    empty = [f"{t['id'][0]}.{t['id'][2]}" for t in theirs if isinstance(t["id"], tuple) and t["id"][1] == "."]
    assert [node.id for node in ours.empty_nodes] == empty
    for key, value in theirs.metadata.items():
        assert ours.comment(key) == (value or "")


def test_a_sentence_with_everything(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(TEXT, encoding="utf-8")
    ours, theirs = list(read_conllu(path)), conllu.parse(TEXT)
    assert len(ours) == len(theirs) == 2
    for pair in zip(ours, theirs, strict=True):
        _agrees(*pair)


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    [
        "UD_English-EWT/en_ewt-ud-dev.conllu",
        "UD_Vietnamese-VTB/vi_vtb-ud-test.conllu",
        "UD_Afrikaans-AfriBooms/af_afribooms-ud-dev.conllu",
    ],
)
def test_treebanks(shared_data: Path, name: str) -> None:
    path = shared_data / "ud" / name
    with path.open(encoding="utf-8") as file:
        for number, (ours, theirs) in enumerate(zip(read_conllu(path), conllu.parse_incr(file), strict=True)):
            if number == 600:
                break
            _agrees(ours, theirs)
