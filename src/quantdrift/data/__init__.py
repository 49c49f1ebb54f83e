"""The questions written for this project, and the room that reads rows of any data set."""
