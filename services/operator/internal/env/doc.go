// Package env builds the commands of garrison env.
package env
