// Package text reads text files that people write with an editor of any system: inventories, lists of servers, tokens,
// contexts. An editor may put a byte order mark before the first word, or save UTF-16; both look right on its screen.
//
//  1. A mark of UTF-8 is dropped.
//  2. UTF-16 is refused by name, and so is a file with zero bytes, which is no text.
//
// Carriage returns are blanks to all parsers here, so they stay. YAML has rules of its own, and its parser keeps them.
package text
