#!/bin/sh
# not yet
