// Package render makes an agent's configuration files from their templates, in Go's
// text/template language. It is pure: a template sees its Data and nothing else.
//
// A value of .metadata that is JSON is what it holds: a number, a bool, a list to range over, or an object, as in
// .metadata.log.file.path. An action prints a list or an object as JSON; print and printf do not.
//
// Functions beside the comparisons and the logic that the language has: print, println;
// printf, in which a missing or unused argument is an error; quote, which writes text as a
// JSON string; json; lookup MAP NAME DEFAULT, which returns a value whose name is no
// identifier, or may be missing; and index, of a list or a map. Without a default a missing one is an error, as in
// .metadata.NAME.
//
// Guarantees:
//
//  1. The same template with the same data renders the same bytes.
//  2. A name that is not there is an error, never an empty text.
//  3. Rendering ends: loops and templates that call each other have a budget of steps, the whole has
//     a budget of time, and no action begins after it.
//  4. Memory is bounded before it is used: each text and the output have at most MaxOutput bytes, all
//     texts together eight times that. The widths and precisions of printf are known before it makes a
//     text.
package render
