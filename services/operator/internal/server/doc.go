// Package server builds the commands of garrison server, from enroll to forget.
package server
