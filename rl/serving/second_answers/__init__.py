"""Second answers: in idle time another answer to what people asked, so that the two can be compared."""
