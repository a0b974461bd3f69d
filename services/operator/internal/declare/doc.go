// Package declare is the inventory as YAML: the form of the files, and what an apply of them changes. It is pure.
//
// A file has a section for each kind, and in it the objects by name. The keys of an object are the JSON names of the
// fields of its proto, so that a new field of a record is read and written without a change here.
//
// Guarantees:
//
//  1. Write is deterministic: equal objects have equal bytes. Read returns what Write wrote.
//  2. Read refuses, with file and line: unknown and repeated keys, values of another form, aliases, anchors, tags, deep
//     and large input.
//  3. Compare changes only fields that the owner declares, or declared before and that still have the value that it
//     set. A field that another owner declares with another value is a conflict.
//  4. Comparing again after its changes were made finds nothing.
package declare
