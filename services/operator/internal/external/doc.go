// Package external is the command external: instances that Garrison tracks and does not run, and the reports about
// them.
package external
