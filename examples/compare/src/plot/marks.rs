//! The mark of each contestant, so that lines can be told apart without their colours.

use super::colour;
use crate::contestant::Contestant;
use plotters::coord::Shift;
use plotters::prelude::*;

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws a mark around a pixel.
pub(super) fn draw(
    canvas: &Canvas,
    contestant: Contestant,
    (x, y): (i32, i32),
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let filled = colour(contestant).filled();
    match contestant {
        Contestant::Hashed => canvas.draw(&Circle::new((x, y), 4, filled)),
        Contestant::Hierarchical => {
            canvas.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], filled))
        }
        Contestant::Kernel => canvas.draw(&Polygon::new(
            [(x - 5, y - 4), (x + 5, y - 4), (x, y + 5)],
            filled,
        )),
        Contestant::Classic => {
            canvas.draw(&Cross::new((x, y), 4, colour(contestant).stroke_width(2)))
        }
        Contestant::Heap => canvas.draw(&Polygon::new(
            [(x, y - 5), (x + 5, y + 4), (x - 5, y + 4)],
            filled,
        )),
        Contestant::Btree => canvas.draw(&Polygon::new(
            [(x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y)],
            filled,
        )),
        Contestant::Array => canvas.draw(&Circle::new((x, y), 3, colour(contestant))),
    }
}
