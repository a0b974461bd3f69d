// Package channel builds the commands of garrison channel.
package channel
