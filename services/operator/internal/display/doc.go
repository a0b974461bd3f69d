// Package display describes how the nouns of Garrison look to an operator: their columns, states, reasons and next
// steps.
//
// It is pure: each function maps a proto message to text. Nouns that more than one command shows are here; a noun that
// only its own commands show describes itself in its own package.
package display
