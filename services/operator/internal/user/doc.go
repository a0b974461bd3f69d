// Package user is the command user: people, and programs that act for them, who may connect.
package user
