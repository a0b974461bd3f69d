// Package app builds the commands of garrison app.
package app
