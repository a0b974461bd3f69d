// Package bus builds the commands of garrison bus, which show the state of the bus.
package bus
