// Package intent builds the commands of garrison intent: list, show and cancel.
package intent
