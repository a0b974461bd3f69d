// Package output prints data: tables, JSON, YAML and names, and the words and times in them.
//
// It knows neither the command line nor the bus. A Listing describes once how rows of one type are shown; Show and
// ShowOne print it in the format that a Printer holds.
//
//  1. Data goes to the Printer's writer only.
//  2. JSON keys are those of the protos, in lower camel case. An empty list is printed as one.
//  3. Control characters in a value never reach a terminal: values come from servers.
//  4. A cell of a table is one line. An empty cell is a dash.
package output
