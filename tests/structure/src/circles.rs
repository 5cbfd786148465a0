//! Files that import each other in a circle.

use crate::imports::Import;

/// How many files may form a circle. A few that belong together may know each other; more are one file in pieces.
pub const CIRCLE_FILES_MAX: usize = 4;

/// The circles of imports with more than `files_max` files: for each its files, by index and sorted.
///
/// Two files are in the same circle if each imports the other, directly or through others.
pub fn above(files: usize, imports: &[Import], files_max: usize) -> Vec<Vec<usize>> {
    let mut reaches = vec![vec![false; files]; files];
    for import in imports {
        reaches[import.from][import.to] = true;
    }
    for through in 0..files {
        let onward = reaches[through].clone();
        for row in reaches.iter_mut().filter(|row| row[through]) {
            row.iter_mut().zip(&onward).for_each(|(reach, next)| *reach |= next);
        }
    }
    let mut circles = Vec::new();
    let mut seen = vec![false; files];
    for file in 0..files {
        if seen[file] {
            continue;
        }
        let circle: Vec<usize> = (file..files)
            .filter(|&other| reaches[file][other] && reaches[other][file])
            .collect();
        circle.iter().for_each(|&other| seen[other] = true);
        if circle.len() > files_max {
            circles.push(circle);
        }
    }
    circles
}
