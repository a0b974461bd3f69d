// Package completion completes the command lines of programs that use package flag: their commands, flags, and the
// words of flags. A script for a shell asks the program itself, so that it never differs from it. The CLI garrison has
// completion of its own, which also asks the services.
//
// Guarantees:
//
//  1. A script runs PROGRAM __complete WORD…, with the words after the program's name; the last one is completed.
//  2. Each candidate is a line of its own; the line ":files" stands for the names of files.
//  3. Completing opens no file and no connection.
package completion
