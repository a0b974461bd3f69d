// Package instance builds the commands of garrison instance.
package instance
