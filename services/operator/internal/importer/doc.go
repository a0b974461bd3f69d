// Package importer builds the commands of garrison import, which bring what other systems know into the inventory.
//
// Packages triton and ansible read; this package reads the files and the records, and changes the inventory on the same
// path as garrison apply: with a plan, a confirmation, and an owner of the fields.
package importer
