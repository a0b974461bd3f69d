// Package selector parses and writes server selectors, the values of --on and --not.
//
// Parse and Args are inverse: what Args writes, Parse reads back to the same selector.
package selector
