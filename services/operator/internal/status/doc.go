// Package status builds the command garrison status: the fleet on one screen, from counts of the services.
package status
