// Package render makes an agent's configuration files from their templates, in Go's
// text/template language. It is pure: a template sees its Data and nothing else.
//
// Functions beside the comparisons and the logic that the language has: print, println,
// printf; quote, which writes text as a JSON string; json; and lookup MAP NAME DEFAULT,
// which gives a value whose name is no identifier, or may be missing. Without a default
// a missing one is an error, as in .metadata.NAME.
//
// Guarantees:
//
//  1. The same template with the same data gives the same bytes.
//  2. A name that is not there is an error, never an empty text.
//  3. Rendering ends: loops and templates that call each other have a budget of steps,
//     and every text that is made is bounded, as the whole is.
package render
