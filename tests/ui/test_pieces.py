"""Controls as they are laid out."""

import ipywidgets as widgets

from workbench.ui.pieces import LABEL_PX, LETTER_PX, WIDEST_PX, dropdown, grid, text_box


def narrowest(*controls):
    columns = grid(controls, 270).layout.grid_template_columns
    return int(columns.split("min(")[1].partition("px")[0])


def test_a_dropdown_s_longest_option_is_not_cut():
    option = "fast: two launches for all groups"
    for options in ((option,), ((option, 1), ("short", 2))):
        found = narrowest(text_box("Batch"), dropdown("Path", options))
        assert found > LABEL_PX + LETTER_PX * len(option)


def test_the_hint_of_an_empty_box_is_not_cut():
    hint = "auto (vLLM decides)"
    assert narrowest(text_box("Hash block", hint=hint)) > LABEL_PX + LETTER_PX * len(hint)


def test_others_stay_as_they_were_and_no_option_takes_the_page():
    assert narrowest(text_box("Batch"), widgets.Button()) == 270
    assert narrowest(dropdown("Part", ("K", "V"))) == 270
    assert narrowest(dropdown("Part", ("long " * 100,))) == WIDEST_PX
    assert narrowest() == 270
