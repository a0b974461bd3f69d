// Package inventory reads and writes the objects that files declare (package declare) through the services.
package inventory
