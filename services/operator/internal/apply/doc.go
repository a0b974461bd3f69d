// Package apply builds the commands garrison apply and garrison diff, which bring the inventory to what files declare.
//
// Package declare compares; this package reads the files and the records, shows, asks and writes.
package apply
