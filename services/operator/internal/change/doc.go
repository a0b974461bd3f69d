// Package change builds the verbs that change what servers run: install, up, configure, remove, undo.
//
// Each builds one or more intents and passes them to work.Propose.
package change
