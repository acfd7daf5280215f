//! Tiles of AMX, and the same in plain code.

use super::tiles::{Products, SIDE, STEPS, Scaled, TOKENS, Tiles, Vector};
use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::OnceLock;

/// Bytes of a tile's row.
const WIDTH: usize = 64;

/// Multiplies the bytes of a panel of 256 weights by their groups' scales. `scales` has two scales for every 32 weights.
///
/// # Safety
/// The processor has AVX-512 with BW; products are within 16 bits.
#[inline(always)]
unsafe fn scale(weights: *const [Vector; 8], scales: *const [Vector; 2], group: usize, to: *mut Scaled) {
    unsafe {
        let (weights, scales) = (weights.cast::<[__m512i; 8]>(), scales.cast::<[__m512i; 2]>());
        let low = (&raw mut (*to).low).cast::<__m512i>();
        let high = (&raw mut (*to).high).cast::<__m512i>();
        let even = _mm512_set1_epi16(0xff);
        for at in 0..SIDE * STEPS {
            let (chunk, j) = (at / 8, at % 8);
            let bytes = (*weights.add(chunk))[j];
            let scale = (*scales.add(chunk))[4 * j / group];
            let twice = _mm512_and_si512(scale, _mm512_set1_epi32(0xffff));
            let twice = _mm512_or_si512(twice, _mm512_slli_epi32::<16>(scale));
            let first = _mm512_mullo_epi16(_mm512_and_si512(bytes, even), twice);
            let second = _mm512_mullo_epi16(_mm512_srli_epi16::<8>(bytes), twice);
            low.add(at).write(_mm512_or_si512(_mm512_and_si512(first, even), _mm512_slli_epi16::<8>(second)));
            high.add(at)
                .write(_mm512_or_si512(_mm512_srli_epi16::<8>(first), _mm512_andnot_si512(even, second)));
        }
    }
}

/// AMX with products of bytes.
pub(in super::super) struct Amx;

/// The operand of `ldtilecfg`: palette 1, then the bytes per row and the number of rows of each of 8 tiles.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    widths: [u16; 16],
    rows: [u8; 16],
}

impl Configuration {
    /// Four tiles of sums, two of so many bytes of 16 tokens, and two of as many weights.
    const fn new(bytes: u8) -> Self {
        let (wide, weights) = (bytes as u16, bytes / 4);
        Self {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            widths: [64, 64, 64, 64, wide, wide, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
            rows: [16, 16, 16, 16, 16, 16, weights, weights, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }
}

static OF_64: Configuration = Configuration::new(64);
static OF_32: Configuration = Configuration::new(32);

impl Tiles for Amx {
    #[inline(always)]
    unsafe fn begin(block: usize) {
        let configuration = if block == 32 { &raw const OF_32 } else { &raw const OF_64 };
        unsafe { asm!("ldtilecfg [{}]", in(reg) configuration, options(nostack)) };
    }

    #[inline(always)]
    unsafe fn end() {
        unsafe { asm!("tilerelease", options(nostack)) };
    }

    #[inline(always)]
    unsafe fn scale(weights: *const [Vector; 8], scales: *const [Vector; 2], group: usize, to: *mut Scaled) {
        unsafe { scale(weights, scales, group, to) }
    }

    // The compiler uses no tiles itself, so that they keep what is in them from one `asm!` to the next.
    #[inline(always)]
    unsafe fn multiply(weights: *const Scaled, activations: *const u8, stride: usize, to: *mut Products) {
        unsafe {
            let mut sums: Sums = std::mem::MaybeUninit::uninit();
            asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack));
            for step in 0..STEPS {
                asm!(
                    "tileloadd tmm4, [{first} + {stride}*1]",
                    "tileloadd tmm6, [{low} + {line}*1]",
                    "tdpbsud tmm0, tmm4, tmm6",
                    "tileloadd tmm5, [{second} + {stride}*1]",
                    "tdpbsud tmm1, tmm5, tmm6",
                    "tileloadd tmm7, [{high} + {line}*1]",
                    "tdpbssd tmm2, tmm4, tmm7",
                    "tdpbssd tmm3, tmm5, tmm7",
                    first = in(reg) activations.add(WIDTH * step),
                    second = in(reg) activations.add(SIDE * stride + WIDTH * step),
                    low = in(reg) &raw const (*weights).low[SIDE * step],
                    high = in(reg) &raw const (*weights).high[SIDE * step],
                    stride = in(reg) stride,
                    line = in(reg) WIDTH,
                    options(nostack)
                );
            }
            asm!(
                "tilestored [{to} + {line}*1], tmm0",
                "tilestored [{to} + {line}*1 + 1024], tmm1",
                "tilestored [{to} + {line}*1 + 2048], tmm2",
                "tilestored [{to} + {line}*1 + 3072], tmm3",
                to = in(reg) sums.as_mut_ptr(),
                line = in(reg) WIDTH,
                options(nostack)
            );
            let [low, high] = sums.assume_init_ref();
            let to = (&raw mut (*to).0).cast::<__m512i>();
            for (i, (low, high)) in low.iter().zip(high).enumerate() {
                to.add(i).write(_mm512_add_epi32(*low, _mm512_slli_epi32::<8>(*high)));
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply_bytes(
        weights: *const [Vector; 8],
        activations: *const u8,
        stride: usize,
        to: *mut Products,
    ) {
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tileloadd tmm6, [{weights} + {line}*1]",
                "tileloadd tmm4, [{first} + {stride}*1]",
                "tdpbsud tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{second} + {stride}*1]",
                "tdpbsud tmm1, tmm5, tmm6",
                "tilestored [{to} + {line}*1], tmm0",
                "tilestored [{to} + {line}*1 + 1024], tmm1",
                weights = in(reg) weights,
                first = in(reg) activations,
                second = in(reg) activations.add(SIDE * stride),
                to = in(reg) to,
                stride = in(reg) stride,
                line = in(reg) WIDTH,
                options(nostack)
            );
        }
    }
}

/// Sums of low bytes and of high ones.
type Sums = std::mem::MaybeUninit<[[__m512i; TOKENS]; 2]>;

impl Amx {
    /// Whether the processor has AMX, Linux lets the process use it, and it gives the products that plain code gives. Logs a warning
    /// where the processor has AMX that cannot be used.
    pub(in super::super) fn is_here() -> bool {
        static HERE: OnceLock<bool> = OnceLock::new();
        *HERE.get_or_init(|| {
            if !has_tiles() {
                return false;
            }
            // SAFETY: this system call takes no pointers.
            let allowed = unsafe { libc::syscall(libc::SYS_arch_prctl, ASK, TILE_DATA) } == 0;
            // SAFETY: the processor has tiles, and the process may use them.
            let is_right = allowed && unsafe { computes_as_plain::<Amx>() };
            if !is_right {
                let why = if allowed { "computes wrongly" } else { "is not allowed by the system" };
                log::warn!("AMX {why}: AVX-512 is used in its place");
            }
            is_right
        })
    }
}

/// `ARCH_REQ_XCOMP_PERM`, and the number of the tiles' state among those of the processor (Linux's `Documentation/arch/x86/xstate.rst`).
const ASK: libc::c_long = 0x1023;
const TILE_DATA: libc::c_long = 18;

/// Whether processor and system have tiles and products of bytes, and AVX-512 beside them.
fn has_tiles() -> bool {
    /// Bits of CPUID's leaf 7 for both, of leaf 1 for the register that says what the system saves, and of that register.
    const TILES: u32 = 1 << 24 | 1 << 25;
    const SAVES: u32 = 1 << 27;
    const STATES: u32 = 3 << 17;
    let (leaf_1, leaf_7) = (__cpuid(1), __cpuid_count(7, 0));
    if leaf_7.edx & TILES != TILES || leaf_1.ecx & SAVES == 0 {
        return false;
    }
    let saved: u32;
    // SAFETY: the processor has this register.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") saved, out("edx") _, options(nomem, nostack)) };
    saved & STATES == STATES
}

/// The same in plain code. `FAULT` is added to the last sum of bytes: tests plant one.
pub(in super::super) struct Plain<const FAULT: i32 = 0>;

/// The sums for all tokens and rows of so many products. `weight`: of a row, and which.
///
/// # Safety
/// Each token has as many bytes, and there is room for the sums.
unsafe fn sum(
    weight: impl Fn(usize, usize) -> i32,
    (activations, stride, count): (*const u8, usize, usize),
    to: *mut Products,
) {
    // SAFETY: vectors are integers of 32 bits.
    let to = unsafe { &mut *to.cast::<[[i32; SIDE]; TOKENS]>() };
    for (token, to) in to.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        let own = unsafe { std::slice::from_raw_parts(activations.add(token * stride).cast::<i8>(), count) };
        for (row, to) in to.iter_mut().enumerate() {
            *to = own.iter().enumerate().map(|(at, own)| weight(row, at) * i32::from(*own)).sum();
        }
    }
}

impl<const FAULT: i32> Tiles for Plain<FAULT> {
    unsafe fn begin(_: usize) {}
    unsafe fn end() {}

    #[inline(always)]
    unsafe fn scale(weights: *const [Vector; 8], scales: *const [Vector; 2], group: usize, to: *mut Scaled) {
        unsafe { scale(weights, scales, group, to) }
    }

    unsafe fn multiply_bytes(
        weights: *const [Vector; 8],
        activations: *const u8,
        stride: usize,
        to: *mut Products,
    ) {
        // SAFETY: vectors are bytes; each token has 32.
        unsafe {
            let weights = &*weights.cast::<[[[u8; 4]; SIDE]; 8]>();
            let weight = |row: usize, at: usize| i32::from(weights[at / 4][row][at % 4]);
            sum(weight, (activations, stride, 32), to);
            (*to).0[TOKENS - 1].0[SIDE - 1] += FAULT;
        }
    }

    unsafe fn multiply(weights: *const Scaled, activations: *const u8, stride: usize, to: *mut Products) {
        const VECTORS: usize = SIDE * STEPS;
        // SAFETY: vectors are bytes; each token has 256.
        unsafe {
            let low = &*(&raw const (*weights).low).cast::<[[[u8; 4]; SIDE]; VECTORS]>();
            let high = &*(&raw const (*weights).high).cast::<[[[i8; 4]; SIDE]; VECTORS]>();
            let weight = |row: usize, at: usize| {
                i32::from(low[at / 4][row][at % 4]) + 256 * i32::from(high[at / 4][row][at % 4])
            };
            sum(weight, (activations, stride, 4 * VECTORS), to);
        }
    }
}

/// Whether tiles of this kind give the products that plain code gives, of bytes of all values.
///
/// # Safety
/// As for [`Tiles`]; the processor has AVX-512.
#[target_feature(enable = "avx512f")]
unsafe fn computes_as_plain<T: Tiles>() -> bool {
    /// Bytes between tokens, as records have them or not.
    const STRIDE: usize = 320;
    let byte = |i: usize| (i * i * 31 + i * 7 + i / 251) as u8;
    let activations: Vec<u8> = (0..TOKENS * STRIDE).map(byte).collect();
    let vector = |at: usize| {
        let four = |i: usize| std::array::from_fn(|k| byte(3 * (WIDTH * at + 4 * i + k)));
        Vector(std::array::from_fn(|i| i32::from_ne_bytes(four(i))))
    };
    let weights = Scaled {
        low: std::array::from_fn(vector),
        high: std::array::from_fn(|at| vector(at + SIDE * STEPS)),
    };
    // SAFETY: the caller's promise; there are as many bytes as tokens need.
    unsafe {
        let own = known_products::<T>(&weights, &activations, STRIDE);
        own == known_products::<Plain>(&weights, &activations, STRIDE)
    }
}

/// # Safety
/// As for [`computes_as_plain`].
#[target_feature(enable = "avx512f")]
unsafe fn known_products<T: Tiles>(
    weights: &Scaled,
    activations: &[u8],
    stride: usize,
) -> [[[i32; SIDE]; TOKENS]; 2] {
    // SAFETY: the caller's promise; integers may all be 0.
    unsafe {
        let mut to: [Products; 2] = std::mem::zeroed();
        T::begin(256);
        T::multiply(weights, activations.as_ptr(), stride, &raw mut to[0]);
        T::end();
        T::begin(32);
        T::multiply_bytes((&raw const weights.low).cast(), activations.as_ptr(), stride, &raw mut to[1]);
        T::end();
        std::mem::transmute(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_at_start_finds_tiles_that_compute_wrongly() {
        if is_x86_feature_detected!("avx512f") {
            assert!(unsafe { computes_as_plain::<Plain>() && !computes_as_plain::<Plain<1>>() });
        }
    }
}
