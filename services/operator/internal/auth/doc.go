// Package auth implements garrison auth, which answers what the caller may do.
package auth
