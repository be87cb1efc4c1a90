//! Colours of a payment page, and whether text in one colour is readable on another.
//!
//! An operator chooses five colours. The service moves the colours of texts, links and edges towards black or white
//! until they are readable or visible on their backgrounds.

use std::fmt;

/// Relative luminance (WCAG 2.2) of each value of a colour channel, in millionths.
const LIGHT: [u32; 256] = [
    0, 304, 607, 911, 1_214, 1_518, 1_821, 2_125, 2_428, 2_732, 3_035, 3_347, 3_677, 4_025, 4_391, 4_777, 5_182, 5_605,
    6_049, 6_512, 6_995, 7_499, 8_023, 8_568, 9_134, 9_721, 10_330, 10_960, 11_612, 12_286, 12_983, 13_702, 14_444,
    15_209, 15_996, 16_807, 17_642, 18_500, 19_382, 20_289, 21_219, 22_174, 23_153, 24_158, 25_187, 26_241, 27_321,
    28_426, 29_557, 30_713, 31_896, 33_105, 34_340, 35_601, 36_889, 38_204, 39_546, 40_915, 42_311, 43_735, 45_186,
    46_665, 48_172, 49_707, 51_269, 52_861, 54_480, 56_128, 57_805, 59_511, 61_246, 63_010, 64_803, 66_626, 68_478,
    70_360, 72_272, 74_214, 76_185, 78_187, 80_220, 82_283, 84_376, 86_500, 88_656, 90_842, 93_059, 95_307, 97_587,
    99_899, 102_242, 104_616, 107_023, 109_462, 111_932, 114_435, 116_971, 119_538, 122_139, 124_772, 127_438, 130_136,
    132_868, 135_633, 138_432, 141_263, 144_128, 147_027, 149_960, 152_926, 155_926, 158_961, 162_029, 165_132,
    168_269, 171_441, 174_647, 177_888, 181_164, 184_475, 187_821, 191_202, 194_618, 198_069, 201_556, 205_079,
    208_637, 212_231, 215_861, 219_526, 223_228, 226_966, 230_740, 234_551, 238_398, 242_281, 246_201, 250_158,
    254_152, 258_183, 262_251, 266_356, 270_498, 274_677, 278_894, 283_149, 287_441, 291_771, 296_138, 300_544,
    304_987, 309_469, 313_989, 318_547, 323_143, 327_778, 332_452, 337_164, 341_914, 346_704, 351_533, 356_400,
    361_307, 366_253, 371_238, 376_262, 381_326, 386_429, 391_572, 396_755, 401_978, 407_240, 412_543, 417_885,
    423_268, 428_690, 434_154, 439_657, 445_201, 450_786, 456_411, 462_077, 467_784, 473_531, 479_320, 485_150,
    491_021, 496_933, 502_886, 508_881, 514_918, 520_996, 527_115, 533_276, 539_479, 545_724, 552_011, 558_340,
    564_712, 571_125, 577_580, 584_078, 590_619, 597_202, 603_827, 610_496, 617_207, 623_960, 630_757, 637_597,
    644_480, 651_406, 658_375, 665_387, 672_443, 679_542, 686_685, 693_872, 701_102, 708_376, 715_694, 723_055,
    730_461, 737_910, 745_404, 752_942, 760_525, 768_151, 775_822, 783_538, 791_298, 799_103, 806_952, 814_847,
    822_786, 830_770, 838_799, 846_873, 854_993, 863_157, 871_367, 879_622, 887_923, 896_269, 904_661, 913_099,
    921_582, 930_111, 938_686, 947_307, 955_973, 964_686, 973_445, 982_251, 991_102, 1_000_000,
];

/// The luminance of white, in the units of [`Colour::light`].
const WHOLE: u64 = 1_000_000 * 10_000;

/// Minimum contrast, in hundredths, of text that is easy to read (WCAG 2.2, 1.4.6).
const CLEAR: u64 = 700;

/// Minimum contrast, in hundredths, of readable text (WCAG 2.2, 1.4.3).
const READABLE: u64 = 450;

/// Minimum contrast, in hundredths, of the visible edge of a field (WCAG 2.2, 1.4.11).
const VISIBLE: u64 = 300;

/// A colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour([u8; 3]);

impl Colour {
    const BLACK: Self = Self([0; 3]);
    const WHITE: Self = Self([255; 3]);

    /// Reads `#rrggbb`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
        let mut channels = [0; 3];
        hex::decode_to_slice(digits, &mut channels).ok()?;
        Some(Self(channels))
    }

    fn light(self) -> u64 {
        let [red, green, blue] = self.0.map(|channel| u64::from(LIGHT[usize::from(channel)]));
        2_126 * red + 7_152 * green + 722 * blue
    }

    /// Whether the contrast of two colours is at least this number of hundredths.
    fn differs(self, other: Self, hundredths: u64) -> bool {
        let (one, two) = (self.light() + WHOLE / 20, other.light() + WHOLE / 20);
        one.max(two) * 100 >= one.min(two) * hundredths
    }

    /// This colour mixed with a percentage of another one.
    fn mixed(self, other: Self, percent: u16) -> Self {
        let percent = percent.min(100);
        let mut channels = self.0;
        for (own, further) in channels.iter_mut().zip(other.0) {
            let sum = u16::from(*own) * (100 - percent) + u16::from(further) * percent;
            *own = u8::try_from((sum + 50) / 100).unwrap_or(u8::MAX);
        }
        Self(channels)
    }

    /// This colour, moved towards black or white until it has enough contrast to all backgrounds. If no step has enough
    /// contrast, the result is black or white.
    fn on(self, grounds: &[Self], hundredths: u64) -> Self {
        let fits = |colour: Self| grounds.iter().all(|ground| colour.differs(*ground, hundredths));
        let end = Self::far_from(grounds);
        let steps = (0..=100).step_by(4).map(|percent| self.mixed(end, percent));
        steps.into_iter().find(|colour| fits(*colour)).unwrap_or(end)
    }

    /// Black or white: the one with more contrast to all backgrounds.
    fn far_from(grounds: &[Self]) -> Self {
        let lights = || grounds.iter().map(|ground| u128::from(ground.light() + WHOLE / 20));
        let (darkest, lightest) = (lights().min().unwrap_or_default(), lights().max().unwrap_or_default());
        let (black, white) = (u128::from(WHOLE / 20), u128::from(WHOLE + WHOLE / 20));
        if darkest * lightest >= black * white {
            Self::BLACK
        } else {
            Self::WHITE
        }
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(formatter, "#{red:02x}{green:02x}{blue:02x}")
    }
}

/// Colours that an operator chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brand {
    /// Background of the page.
    pub ground: Colour,
    /// Background of texts.
    pub card: Colour,
    /// Button that pays.
    pub action: Colour,
    /// Texts.
    pub text: Colour,
    /// Less important texts.
    pub quiet: Colour,
}

/// Colours of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette {
    /// Background of the page.
    pub ground: Colour,
    /// Background of texts.
    pub card: Colour,
    /// Background of highlighted parts.
    pub tint: Colour,
    /// Texts.
    pub text: Colour,
    /// Less important texts.
    pub quiet: Colour,
    /// Texts on the background of the page.
    pub below: Colour,
    /// Lines between parts.
    pub line: Colour,
    /// Edges of fields.
    pub edge: Colour,
    /// Button.
    pub action: Colour,
    /// Edge of the button: the colour of the button if it is visible on the card, otherwise the edge colour of fields.
    pub action_edge: Colour,
    /// Text of the button.
    pub on_action: Colour,
    /// Links and the focus.
    pub link: Colour,
}

impl Brand {
    /// For the light theme.
    pub fn light(&self) -> Palette {
        Palette::of(*self)
    }

    /// The palette for the dark theme: dark backgrounds with a tint of the chosen colours, and light text. A dark
    /// button is lightened.
    pub fn dark(&self) -> Palette {
        let night = |colour: Colour, base: Colour| base.mixed(colour, 6);
        let dim = self.action.light() < WHOLE / 6;
        Palette::of(Self {
            ground: night(self.ground, Colour([11, 15, 20])),
            card: night(self.card, Colour([20, 27, 35])),
            action: if dim {
                self.action.mixed(Colour::WHITE, 40)
            } else {
                self.action
            },
            text: Colour([232, 238, 244]),
            quiet: Colour([160, 174, 190]),
        })
    }
}

impl Palette {
    fn of(brand: Brand) -> Self {
        let tinted = brand.card.mixed(brand.action, 5);
        // On a medium grey card, only black may be readable, and on its tint only white, or the other way round.
        let palette = Self::on(brand, tinted);
        if palette.link.differs(tinted, READABLE) && palette.link.differs(brand.card, READABLE) {
            palette
        } else {
            Self::on(brand, brand.card)
        }
    }

    fn on(brand: Brand, tint: Colour) -> Self {
        let Brand {
            ground,
            card,
            action,
            text,
            quiet,
        } = brand;
        let grounds = [card, tint];
        let text = text.on(&grounds, CLEAR);
        let edge = card.mixed(text, 45).on(&grounds, VISIBLE);
        Self {
            ground,
            card,
            tint,
            text,
            quiet: quiet.on(&grounds, READABLE),
            below: quiet.on(&[ground], READABLE),
            line: card.mixed(text, 16),
            edge,
            action,
            action_edge: if action.differs(card, VISIBLE) { action } else { edge },
            // Where white is not readable, black is.
            on_action: if Colour::WHITE.differs(action, READABLE) {
                Colour::WHITE
            } else {
                Colour::BLACK
            },
            link: action.on(&grounds, READABLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{array::uniform3, prelude::*};

    fn colour(text: &str) -> Colour {
        Colour::parse(text).unwrap()
    }

    #[test]
    fn colours_round_trip_through_text() {
        assert_eq!(colour("#00D395").to_string(), "#00d395");
        for text in ["00d395", "#00d39", "#00d3955", "#00d39g", "red", ""] {
            assert_eq!(Colour::parse(text), None, "{text}");
        }
    }

    #[test]
    fn contrasts_match_reference_values() {
        // The published formula gives 4.54 and 4.48.
        assert!(colour("#767676").differs(Colour::WHITE, 454) && !colour("#767676").differs(Colour::WHITE, 455));
        assert!(!colour("#777777").differs(Colour::WHITE, 450));
        assert!(Colour::BLACK.differs(Colour::WHITE, 2_100) && !Colour::BLACK.differs(Colour::WHITE, 2_101));
    }

    #[test]
    fn a_bright_button_has_black_text() {
        let brand = Brand {
            ground: colour("#f3f4f6"),
            card: colour("#ffffff"),
            action: colour("#00d395"),
            text: colour("#475569"),
            quiet: colour("#94a3b8"),
        };
        let palette = brand.light();
        assert_eq!((palette.on_action, palette.action), (Colour::BLACK, colour("#00d395")));
        assert_ne!(palette.link, palette.action);
    }

    proptest! {
        #[test]
        fn any_chosen_colour_is_readable_in_light_and_dark_mode(chosen in proptest::array::uniform5(uniform3(any::<u8>()))) {
            let [ground, card, action, text, quiet] = chosen.map(Colour);
            let brand = Brand { ground, card, action, text, quiet };
            for palette in [brand.light(), brand.dark()] {
                let Palette { ground, card, tint, text, quiet, below, on_action, action, action_edge, link, edge, .. } = palette;
                prop_assert!(on_action.differs(action, READABLE), "{palette:?}");
                prop_assert!(below.differs(ground, READABLE), "{palette:?}");
                prop_assert!(action_edge.differs(card, VISIBLE), "{palette:?}");
                for under in [card, tint] {
                    for over in [text, quiet, link] {
                        prop_assert!(over.differs(under, READABLE), "{palette:?}");
                    }
                    prop_assert!(edge.differs(under, VISIBLE), "{palette:?}");
                }
            }
        }
    }
}
