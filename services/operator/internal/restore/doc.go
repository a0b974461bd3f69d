// Package restore builds the commands of garrison restore, for the time after a backup of the control plane was
// restored.
package restore
