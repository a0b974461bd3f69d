// Package record builds the five commands of a noun that is a name with metadata: create, list, show, update, delete.
//
// Agents, applications and environments share it. A Noun says what differs; Commands builds the rest.
package record
