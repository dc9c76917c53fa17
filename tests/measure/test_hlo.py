"""The reader of optimised programs: loops, launches, operations and bytes, against a program counted by hand."""

import pytest

from curious_jax.measure import hlo

PROGRAM = """HloModule jit_f, is_scheduled=true

%fused_take (store: f32[1000,8], row: s32[]) -> f32[1,8] {
  %store = f32[1000,8]{1,0} parameter(0)
  %row = s32[] parameter(1)
  %zero = s32[] constant(0)
  ROOT %slice = f32[1,8]{1,0} dynamic-slice(%store, %row, %zero), dynamic_slice_sizes={1,8}
}

%fused_put (log: f32[50,8], value: f32[1,8], row: s32[]) -> f32[50,8] {
  %log = f32[50,8]{1,0} parameter(0)
  %value = f32[1,8]{1,0} parameter(1)
  %row.1 = s32[] parameter(2)
  %zero.1 = s32[] constant(0)
  ROOT %put = f32[50,8]{1,0} dynamic-update-slice(%log, %value, %row.1, %zero.1)
}

%inner_body (pair: (s32[], f32[1,8])) -> (s32[], f32[1,8]) {
  %pair = (s32[], f32[1,8]{1,0}) parameter(0)
  %count = s32[] get-tuple-element(%pair), index=0
  %held = f32[1,8]{1,0} get-tuple-element(%pair), index=1
  %weights = f32[8,8]{1,0} constant({...})
  %product = f32[1,8]{1,0} dot(%held, %weights), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="jit(f)/while/body/rollout/while/body/physics/dot_general"}
  ROOT %next = (s32[], f32[1,8]{1,0}) tuple(%count, %product)
}

%inner_condition (pair.1: (s32[], f32[1,8])) -> pred[] {
  %pair.1 = (s32[], f32[1,8]{1,0}) parameter(0)
  %count.1 = s32[] get-tuple-element(%pair.1), index=0
  %limit = s32[]{:T(128)} constant(20)
  ROOT %less = pred[] compare(%count.1, %limit), direction=LT
}

%updates_body (state: (s32[], f32[256,64])) -> (s32[], f32[256,64]) {
  %state = (s32[], f32[256,64]{1,0}) parameter(0)
  %count.2 = s32[] get-tuple-element(%state), index=0
  %weight = f32[256,64]{1,0} get-tuple-element(%state), index=1
  %result = (f32[256,64]{1,0}, s8[1024]{0}) custom-call(%weight, %weight), custom_call_target="__cublas$gemm", \
metadata={op_name="jit(f)/while/body/while/body/gradients/dot_general"}, \
backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],\
"rhs_contracting_dimensions":["1"]}}}
  %gemm = f32[256,64]{1,0} get-tuple-element(%result), index=0
  %copy = f32[256,64]{1,0} copy(%gemm)
  ROOT %out = (s32[], f32[256,64]{1,0}) tuple(%count.2, %copy)
}

%updates_condition (state.1: (s32[], f32[256,64])) -> pred[] {
  %state.1 = (s32[], f32[256,64]{1,0}) parameter(0)
  %count.3 = s32[] get-tuple-element(%state.1), index=0
  %limit.1 = s32[] constant(7)
  ROOT %less.1 = pred[] compare(%count.3, %limit.1), direction=LT
}

%until (state.2: (s32[], f32[256,64])) -> pred[] {
  %state.2 = (s32[], f32[256,64]{1,0}) parameter(0)
  %flag = pred[] custom-call(%state.2), custom_call_target="ask"
  ROOT %both = pred[] and(%flag, %flag)
}

ENTRY %main (store.1: f32[1000,8], log.1: f32[50,8], first: f32[256,64]) -> (f32[50,8], f32[256,64]) {
  %store.1 = f32[1000,8]{1,0} parameter(0)
  %log.1 = f32[50,8]{1,0} parameter(1)
  %first = f32[256,64]{1,0} parameter(2)
  %start = s32[] constant(0)
  %taken = f32[1,8]{1,0} fusion(%store.1, %start), kind=kLoop, calls=%fused_take
  %pair.2 = (s32[], f32[1,8]{1,0}) tuple(%start, %taken)
  %steps = (s32[], f32[1,8]{1,0}) while(%pair.2), condition=%inner_condition, body=%inner_body
  %value.1 = f32[1,8]{1,0} get-tuple-element(%steps), index=1
  %logged = f32[50,8]{1,0} fusion(%log.1, %value.1, %start), kind=kLoop, calls=%fused_put
  %pair.3 = (s32[], f32[256,64]{1,0}) tuple(%start, %first)
  %trained = (s32[], f32[256,64]{1,0}) while(%pair.3), condition=%until, body=%updates_body, \
backend_config={"known_trip_count":{"n":"7"}}
  %last = f32[256,64]{1,0} get-tuple-element(%trained), index=1
  ROOT %all = (f32[50,8]{1,0}, f32[256,64]{1,0}) tuple(%logged, %last)
}
"""
WEIGHT = 4 * 256 * 64


@pytest.fixture(scope="module")
def program():
    return hlo.read(PROGRAM)


def test_a_loop_s_pass_is_its_body(program):
    update = program.loop("gradients", "physics")
    flop = 2 * 256 * 64 * 64
    moved = 2 * WEIGHT + (WEIGHT + 1024) + 2 * WEIGHT  # two operands, result and its workspace; a copy
    assert (update.trips, update.cost) == (7, hlo.Cost(2, 1, flop, moved))
    step = program.loop("physics", "gradients")
    assert (step.trips, step.cost) == (20, hlo.Cost(1, 0, 2 * 8 * 8, 4 * (8 + 64 + 8)))
    assert program.loop("nothing", "physics") is None


def test_the_whole_multiplies_passes_and_counts_slices_by_their_size(program):
    taken = 4 * 8 + 4 + 4 * 8  # a row of the store read, the row's number, the row written
    put = 4 * 8 + 4 + 4 * 8
    loops = program.loop("physics", "gradients").cost.times(20) + program.loop("gradients", "physics").cost.times(7)
    assert program.cost() == hlo.Cost(2, 0, 0, taken + put) + loops


def test_a_loop_of_unknown_length_counts_once_with_its_condition(program):
    text = PROGRAM.replace(', backend_config={"known_trip_count":{"n":"7"}}', "")
    update = hlo.read(text).loop("gradients", "physics")
    assert update.trips is None
    assert update.cost.launches == program.loop("gradients", "physics").cost.launches + 2  # the question, and `and`
    assert hlo.read(text).cost().launches == 2 + 20 + 4


def test_fast_memory_and_names_cost_nothing():
    text = """
ENTRY %main (a: f32[4,8]) -> f32[4,8] {
  %a = f32[4,8]{1,0:T(8,128)} parameter(0)
  %space = f32[4,8]{1,0:T(8,128)S(1)} custom-call(), custom_call_target="AllocateBuffer"
  %kernel = f32[8,16]{1,0:T(8,128)S(1)} constant({...})
  %convolution = f32[4,16]{1,0:T(8,128)S(1)} convolution(%a, %kernel), dim_labels=bf_io->bf
  ROOT %copy = f32[4,8]{1,0:T(8,128)} copy(%a)
}
"""
    assert hlo.read(text).cost() == hlo.Cost(2, 0, 2 * 4 * 16 * 8, 128 + 2 * 128)


@pytest.mark.parametrize(
    ("line", "moved"),
    [
        # 1,024 arrays of 9 numbers copied into fast memory: read once, and written where nothing counts.
        ("%a = (f32[1024,3,3]{1,2,0:T(4,128)S(1)}, f32[1024,3,3]{1,2,0:T(4,128)}, u32[]{:S(2)}) copy-start(%b)", 36864),
        ("%a = (f32[1024,3,3]{1,2,0}, f32[1024,3,3]{1,2,0}, u32[]{:S(2)}) copy-start(%b)", 2 * 36864),
        # A quarter of it.
        ("%a = ((f32[1024,3,3]{1,2,0}), f32[256,3,3]{1,2,0:T(4,128)S(1)}, s32[]{:S(2)}) slice-start(%b)", 9216),
        ("%a = ((f32[1024,3,3]{1,2,0}), f32[256,3,3]{1,2,0}, s32[]{:S(2)}) slice-start(%b)", 2 * 9216),
        ("%a = ((f32[1024,3,3]{1,2,0:S(1)}), f32[256,3,3]{1,2,0}, s32[]{:S(2)}) slice-start(%b)", 9216),
        ("%a = f32[256,3,3]{1,2,0:T(4,128)S(1)} slice-done(%b)", 0),
        # Two arrays changed in 5 rows of 8 numbers each: read and written.
        ("%a = (f32[99,8]{1,0}, f32[99,8]{1,0}) scatter(%b, %b, %rows, %new, %new), to_apply=%sum", 4 * 160),
        ("%a = f32[99,8]{1,0} scatter(%b, %rows, %new), to_apply=%sum", 2 * 160),
    ],
)
def test_asynchronous_copies_and_scatters_count_what_they_move(line, moved):
    around = "\n".join(
        (
            "HloModule jit_g",
            "",
            "ENTRY %main (b: f32[1024,3,3]) -> f32[1] {",
            "  %b = f32[1024,3,3]{1,2,0} parameter(0)",
            "  %rows = s32[5]{0} parameter(1)",
            "  %new = f32[5,8]{1,0} parameter(2)",
            f"  {line}",
            "}",
        )
    )
    cost = hlo.read(around).cost()
    assert cost.bytes == moved and cost.launches == (0 if "-done" in line else 1)
